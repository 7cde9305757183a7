// What a model or a device throws, as a status.
#pragma once

#include <functional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace fovea {

inline constexpr std::string_view kDeviceLost = "device.lost";
absl::Status DeviceLost();  // UNAVAILABLE
// Returns `status`, having called `on_lost` (may be null) where it says that the device is lost.
absl::Status TellIfLost(absl::Status status, const std::function<void()>& on_lost);

// Runs `work` and returns OK, or the status of what it threw:
//   UNAVAILABLE (device.out_of_memory): an allocation failed, of pinned memory too;
//   UNAVAILABLE (device.lost): an accelerator's error after which the device may not be used until
//   the process is started anew, as all of CUDA's that torch_status.cc does not list;
//   UNAVAILABLE (server.no_thread): the system refused a thread;
//   INTERNAL with `reason`: everything else, also CUDA's errors that refuse one call and leave the
//   device as it was.
// The exception's own text goes to the log, never into the status. When this returns, the exception
// is gone: what must not happen inside a catch block, like freeing a device's memory, can follow.
absl::Status RunTorch(std::string_view reason, absl::FunctionRef<void()> work);

// The same for building a model from its description and files, where the fault is the operator's
// and the model zoo throws words for them: for a c10::Error that is none of a device's,
// FAILED_PRECONDITION with `reason` and the first line of those words.
absl::Status RunTorchLoad(std::string_view reason, absl::FunctionRef<void()> work);

// Silences LibTorch's warnings, which go to stderr beside the log, whatever its format. None is an
// operator's affair: they tell of its profiler, by which the memory of passes is measured.
void SilenceTorchWarnings();

}  // namespace fovea
