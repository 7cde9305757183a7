// A second device for tests, on a machine that has none: LibTorch's backend HPU, whose memory is
// the host's and whose operators are the CPU's.
//   What a GPU refuses it refuses: an operator given tensors of both devices throws, but for
// numbers without a dimension on the CPU; a pointer into its memory that the host follows ends the
// process. Fovea's operators run on it as they are, by their references.
//   It is HPU because Tensor::set_data, by which layers move what they hold, is for the backends
// that LibTorch knows by name, PrivateUse1 not among them; and none of LibTorch's libraries has
// kernels for HPU.
#pragma once

#include <c10/core/Device.h>

#include <set>
#include <string>

namespace fovea::models {

inline const c10::Device kSecondDevice{c10::kHPU, 0};

// What this thread has the second device do during this object's life that a GPU could not replay
// once it is recorded: it would wait, or read host memory that is gone. Not to be nested.
class WatchedDevice {
 public:
  WatchedDevice();
  ~WatchedDevice();
  WatchedDevice(const WatchedDevice&) = delete;
  WatchedDevice& operator=(const WatchedDevice&) = delete;

  // Operators for whose numbers the host waited, or by which sizes followed from numbers.
  std::set<std::string> waits;
  // Copies from host memory, as the type and the shape of what was copied.
  std::set<std::string> uploads;
  // How often the host waited.
  int waited = 0;
};

}  // namespace fovea::models
