#include "kernels/other_processes.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

namespace fovea::kernels {
namespace {

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

std::string TextOfStat() {
  std::ifstream file("/proc/stat");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double SecondsOfProcess() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// Takes the next number off the front of `text`; false where there is none.
bool TakeNumber(std::string_view& text, double& number) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<CoreTimes> ReadCoreTimes(std::string_view stat, const std::vector<int>& allowed) {
  static const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  CoreTimes times;
  for (const int core : allowed) {
    const std::string name = "\ncpu" + std::to_string(core) + " ";
    const size_t at = stat.find(name);
    if (at == stat.npos) return std::nullopt;
    std::string_view line = stat.substr(at + name.size());
    line = line.substr(0, line.find('\n'));
    // The fields after these are the time of guests, which user and nice already include.
    double user = 0, nice = 0, system = 0, idle = 0, disk = 0, irq = 0, softirq = 0, stolen = 0;
    for (double* const field : {&user, &nice, &system, &idle, &disk, &irq, &softirq, &stolen}) {
      if (!TakeNumber(line, *field)) return std::nullopt;
    }
    ++times.cores;
    times.busy += (user + nice + system + irq + softirq + stolen) / ticks;
    times.idle += (idle + disk) / ticks;
  }
  if (times.cores == 0) return std::nullopt;
  return times;
}

std::optional<double> OtherCores(const CoreTimes& before, const CoreTimes& after, double own,
                                 double wall) {
  const double busy = after.busy - before.busy, idle = after.idle - before.idle;
  if (wall <= 0 || busy + idle < 0.5 * wall * after.cores) return std::nullopt;
  return std::max(0.0, (busy - own) / wall);
}

OtherProcesses::OtherProcesses() : allowed_(AllowedCores()) { CoresSinceLast(); }

std::optional<double> OtherProcesses::CoresSinceLast() {
  const std::optional<CoreTimes> times = ReadCoreTimes(TextOfStat(), allowed_);
  const auto now = std::chrono::steady_clock::now();
  const double own = SecondsOfProcess();
  std::optional<double> others;
  if (times && last_) {
    others = OtherCores(*last_, *times, own - last_own_,
                        std::chrono::duration<double>(now - last_at_).count());
  }
  last_ = times;
  last_at_ = now;
  last_own_ = own;
  return others;
}

}  // namespace fovea::kernels
