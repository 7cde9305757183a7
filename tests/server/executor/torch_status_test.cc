// What LibTorch throws, as a status.
#include "server/executor/torch_status.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "base/status.h"

namespace fovea {
namespace {

struct Thrown {
  std::string name;
  std::function<void()> work;
  absl::StatusCode run, load;
  std::string reason;
};

std::function<void()> CudaError(int32_t code) {
  return [code] { throw c10::AcceleratorError({"call", "file", 1}, code, "CUDA error"); };
}

TEST(TorchStatusTest, EveryExceptionBecomesOne) {
  using absl::StatusCode;
  const Thrown cases[] = {
      {"nothing", [] {}, StatusCode::kOk, StatusCode::kOk, ""},
      {"the zoo's words", [] { TORCH_CHECK_VALUE(false, "no such layer\nat a line"); },
       StatusCode::kInternal, StatusCode::kFailedPrecondition, "given"},
      {"no memory", [] { TORCH_CHECK_WITH(OutOfMemoryError, false, "1 GiB"); },
       StatusCode::kUnavailable, StatusCode::kUnavailable, "device.out_of_memory"},
      {"no memory on the CPU", [] { at::empty({int64_t{1} << 46}, at::kByte); },
       StatusCode::kUnavailable, StatusCode::kUnavailable, "device.out_of_memory"},
      {"no host memory", [] { throw std::bad_alloc(); }, StatusCode::kUnavailable,
       StatusCode::kUnavailable, "device.out_of_memory"},
      // Also while a model is loaded: it is not the model's fault.
      {"a lost device", CudaError(719), StatusCode::kUnavailable, StatusCode::kUnavailable,
       "device.lost"},
      {"no pinned memory", CudaError(2), StatusCode::kUnavailable, StatusCode::kUnavailable,
       "device.out_of_memory"},
      // The device runs on: whoever loads such a model is not to end the server.
      {"a kernel that the device has no code for", CudaError(209), StatusCode::kInternal,
       StatusCode::kInternal, "given"},
      {"another library's", [] { throw std::runtime_error("secret"); }, StatusCode::kInternal,
       StatusCode::kInternal, "given"},
  };
  for (const Thrown& thrown : cases) {
    SCOPED_TRACE(thrown.name);
    const absl::Status run = RunTorch("given", thrown.work);
    const absl::Status load = RunTorchLoad("given", thrown.work);
    EXPECT_EQ(run.code(), thrown.run) << run;
    EXPECT_EQ(load.code(), thrown.load) << load;
    EXPECT_EQ(ReasonOf(run), thrown.reason);
    EXPECT_EQ(ReasonOf(load), thrown.reason);
    EXPECT_EQ(run.message().find("secret"), std::string::npos) << run;
  }
  EXPECT_EQ(RunTorchLoad("given", cases[1].work).message(), "no such layer");
}

TEST(TorchStatusTest, CudaErrorsThatRefuseOneCallLoseNoDevice) {
  for (const int32_t code : {1, 9, 98, 200, 209, 218, 221, 222, 223, 701, 720, 801, 912}) {
    EXPECT_EQ(ReasonOf(RunTorch("given", CudaError(code))), "given") << code;
  }
  // Devices that are taken, uncorrectable memory, illegal addresses and instructions, timeouts,
  // failed captures, what CUDA does not know, and a code that it does not have.
  for (const int32_t code :
       {46, 214, 700, 702, 710, 715, 716, 717, 718, 719, 900, 901, 908, 999, 12345}) {
    EXPECT_EQ(ReasonOf(RunTorch("given", CudaError(code))), kDeviceLost) << code;
  }
}

// docs/faults.md, row 97.
TEST(TorchStatusTest, AThreadThatIsRefusedIsUnavailable) {
  const auto refuse = [] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  for (const absl::Status& status :
       {RunTorch("executor.failed", refuse), RunTorchLoad("model.load_failed", refuse)}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(ReasonOf(status), "server.no_thread");
  }
}

}  // namespace
}  // namespace fovea
