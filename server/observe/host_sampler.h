// How busy the whole machine is, as Triton's metrics tell it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "server/core/mutex.h"

namespace fovea {

// Thread-safe.
class HostSampler {
 public:
  // `proc`: where proc(5)'s files are.
  explicit HostSampler(std::string proc = "/proc");

  // Of all processors, the share of the time since the last call that they worked, 0 to 1; at least
  // since a tenth of a second of one processor, or what was told then. Absent where it cannot be
  // read.
  std::optional<double> CpuUtilization();

  struct Memory {
    uint64_t total_bytes = 0;
    uint64_t used_bytes = 0;  // what new programs could not have
  };
  std::optional<Memory> ReadMemory() const;

 private:
  struct Ticks {
    uint64_t busy = 0, idle = 0;
  };
  std::optional<Ticks> ReadTicks() const;

  const std::string proc_;
  Mutex mutex_;
  std::optional<Ticks> last_ ABSL_GUARDED_BY(mutex_);
  double utilization_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace fovea
