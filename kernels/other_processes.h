// The cores that other processes use.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

namespace fovea::kernels {

// CPU time of the cores that this process may run on, in seconds since the system's start.
struct CoreTimes {
  int cores = 0;
  double busy = 0;  // summed over the cores, with what the hypervisor took
  double idle = 0;  // summed over the cores, with waits for disks
};
// Reads `stat`, the text of /proc/stat, for the cores in `allowed`. Absent where one of them is
// missing from it.
std::optional<CoreTimes> ReadCoreTimes(std::string_view stat, const std::vector<int>& allowed);

// Mean number of cores that other processes used between two readings `wall` seconds apart, in
// which this process used `own` seconds. Absent where the system did not count the time, as
// sandboxes do whose times are all zero.
std::optional<double> OtherCores(const CoreTimes& before, const CoreTimes& after, double own,
                                 double wall);

// Measures how many cores other processes use. Not thread-safe.
class OtherProcesses {
 public:
  OtherProcesses();

  // OtherCores since the last call, or since construction. Times count in hundredths of a second.
  std::optional<double> CoresSinceLast();

 private:
  const std::vector<int> allowed_;
  std::optional<CoreTimes> last_;
  std::chrono::steady_clock::time_point last_at_;
  double last_own_ = 0;  // CPU time of this process, in seconds
};

}  // namespace fovea::kernels
