#include "server/executor/torch_status.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/log.h"
#include "server/core/start_threads.h"

namespace fovea {
namespace {

// As driver_types.h has them, which builds without CUDA lack.
enum CudaError : int32_t {
  kInvalidValue = 1,
  kMemoryAllocation = 2,  // of pinned host memory, too
  kInvalidConfiguration = 9,
  kInvalidDeviceFunction = 98,
  kInvalidKernelImage = 200,
  kNoKernelImageForDevice = 209,
  kInvalidPtx = 218,
  kJitCompilerNotFound = 221,
  kUnsupportedPtxVersion = 222,
  kJitCompilationDisabled = 223,
  kLaunchOutOfResources = 701,
  kCooperativeLaunchTooLarge = 720,
  kNotSupported = 801,
  kInvalidClusterSize = 912,
};

// Whether a device runs other work as before: what was asked of it was refused, and not begun. A
// capture that fails (900 to 908) is none of these: LibTorch's allocator stays in it.
bool LeavesDeviceUsable(int32_t error) {
  switch (error) {
    case kInvalidValue:
    case kInvalidConfiguration:
    case kInvalidDeviceFunction:
    case kInvalidKernelImage:
    case kNoKernelImageForDevice:
    case kInvalidPtx:
    case kJitCompilerNotFound:
    case kUnsupportedPtxVersion:
    case kJitCompilationDisabled:
    case kLaunchOutOfResources:
    case kCooperativeLaunchTooLarge:
    case kNotSupported:
    case kInvalidClusterSize:
      return true;
    default:
      return false;
  }
}

// LibTorch's allocator of the CPU throws a plain c10::Error (c10/core/impl/alloc_cpu.cpp).
bool IsOutOfMemory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         std::string_view(error.what_without_backtrace()).find("DefaultCPUAllocator: ") !=
             std::string_view::npos;
}

absl::Status OutOfMemory(const char* what) {
  Log(LogLevel::kWarning, absl::StrCat("device.out_of_memory: ", what));
  return Unavailable("device.out_of_memory", "the device has no memory left for this");
}

absl::Status Failed(std::string_view reason, const char* what) {
  Log(LogLevel::kError, absl::StrCat(std::string(reason), ": ", what));
  return Internal(reason, "the model could not be run");
}

}  // namespace

absl::Status DeviceLost() {
  return Unavailable(kDeviceLost, "the device that the model runs on is lost");
}

absl::Status TellIfLost(absl::Status status, const std::function<void()>& on_lost) {
  if (ReasonOf(status) == kDeviceLost && on_lost) on_lost();
  return status;
}

absl::Status RunTorch(std::string_view reason, absl::FunctionRef<void()> work) {
  try {
    work();
    return absl::OkStatus();
  } catch (const std::bad_alloc& error) {
    return OutOfMemory(error.what());
  } catch (const c10::AcceleratorError& error) {
    const char* const what = error.what_without_backtrace();
    const int32_t code = error.get_error_code();
    if (code == kMemoryAllocation) return OutOfMemory(what);
    if (LeavesDeviceUsable(code)) return Failed(reason, what);
    Log(LogLevel::kError, absl::StrCat("device.lost: ", what));
    return DeviceLost();
  } catch (const c10::Error& error) {
    const char* const what = error.what_without_backtrace();
    return IsOutOfMemory(error) ? OutOfMemory(what) : Failed(reason, what);
  } catch (const std::system_error& error) {
    const bool no_thread = error.code() == std::errc::resource_unavailable_try_again;
    return no_thread ? NoThread() : Failed(reason, error.what());
  } catch (const std::exception& error) {
    return Failed(reason, error.what());
  }
}

absl::Status RunTorchLoad(std::string_view reason, absl::FunctionRef<void()> work) {
  std::string words;
  const absl::Status status = RunTorch(reason, [&] {
    try {
      work();
    } catch (const c10::AcceleratorError&) {
      throw;
    } catch (const c10::Error& error) {
      if (IsOutOfMemory(error)) throw;
      words = error.what_without_backtrace();
    }
  });
  if (words.empty()) return status;
  return FailedPrecondition(reason, words.substr(0, words.find('\n')));
}

void SilenceTorchWarnings() { FLAGS_caffe2_log_level = c10::GLOG_ERROR; }

}  // namespace fovea
