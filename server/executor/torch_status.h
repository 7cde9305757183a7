// LibTorch's exceptions become a status here, and nowhere else.
#pragma once

#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace fovea {

inline constexpr std::string_view kDeviceLost = "device.lost";
absl::Status DeviceLost();  // UNAVAILABLE

// Runs `work` and returns OK, or the status of what it threw:
//   UNAVAILABLE (device.out_of_memory) for an allocation that failed, of pinned memory too,
//   UNAVAILABLE (device.lost) for what an accelerator's driver reports, and which stays until the
//   device is started anew: all of CUDA's errors but those that refuse what was asked, which are
//   as everything else,
//   INTERNAL with `reason` for everything else.
// The exception's own text goes to the log, never into the status. When this returns, the exception
// is gone: what must not happen inside a catch block, like freeing a device's memory, can follow.
absl::Status RunTorch(std::string_view reason, absl::FunctionRef<void()> work);

// The same for building a model from its description and files, where the fault is the operator's
// and the model zoo throws words for them: FAILED_PRECONDITION with `reason` and the first line of
// those words, in place of INTERNAL.
absl::Status RunTorchLoad(std::string_view reason, absl::FunctionRef<void()> work);

}  // namespace fovea
