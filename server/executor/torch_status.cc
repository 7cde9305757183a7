#include "server/executor/torch_status.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/log.h"

namespace fovea {
namespace {

absl::Status OutOfMemory() {
  return Unavailable("device.out_of_memory", "the device has no memory left for this");
}

// CUDA's errors (cudaError_t) after which a device runs other work as before: what was asked of it
// was refused, and not begun.
bool LeavesDeviceUsable(int32_t code) {
  switch (code) {
    case 1:    // cudaErrorInvalidValue
    case 9:    // cudaErrorInvalidConfiguration
    case 98:   // cudaErrorInvalidDeviceFunction
    case 200:  // cudaErrorInvalidKernelImage
    case 209:  // cudaErrorNoKernelImageForDevice
    case 701:  // cudaErrorLaunchOutOfResources
    case 801:  // cudaErrorNotSupported
      return true;
    default:
      return code >= 900 && code <= 908;  // cudaErrorStreamCapture...: a graph's recording
  }
}

absl::Status OutOfMemory(const c10::Error& error) {
  Log(LogLevel::kWarning, error.what_without_backtrace());
  return OutOfMemory();
}

absl::Status Failed(std::string_view reason, const char* what) {
  Log(LogLevel::kError, absl::StrCat(std::string(reason), ": ", what));
  return Internal(reason, "the model could not be run");
}

}  // namespace

absl::Status DeviceLost() {
  return Unavailable(kDeviceLost, "the device that the model runs on is lost");
}

absl::Status RunTorch(std::string_view reason, absl::FunctionRef<void()> work) {
  try {
    work();
    return absl::OkStatus();
  } catch (const c10::OutOfMemoryError& error) {
    return OutOfMemory(error);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const c10::AcceleratorError& error) {
    constexpr int32_t kCudaErrorMemoryAllocation = 2;  // of pinned host memory, too
    const int32_t code = error.get_error_code();
    if (code == kCudaErrorMemoryAllocation) return OutOfMemory(error);
    if (LeavesDeviceUsable(code)) return Failed(reason, error.what_without_backtrace());
    Log(LogLevel::kError, absl::StrCat("device.lost: ", error.what_without_backtrace()));
    return DeviceLost();
  } catch (const c10::Error& error) {
    return Failed(reason, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Failed(reason, error.what());
  }
}

absl::Status RunTorchLoad(std::string_view reason, absl::FunctionRef<void()> work) {
  std::string words;
  const absl::Status status = RunTorch(reason, [&] {
    try {
      work();
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::AcceleratorError&) {
      throw;
    } catch (const c10::Error& error) {
      words = error.what_without_backtrace();
    }
  });
  if (words.empty()) return status;
  return FailedPrecondition(reason, words.substr(0, words.find('\n')));
}

}  // namespace fovea
