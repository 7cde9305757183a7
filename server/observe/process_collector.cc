#include "server/observe/process_collector.h"

#include <dirent.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "server/observe/single_metric.h"

namespace fovea {
namespace {

// Fields of /proc/self/stat after the command's name, which may hold spaces; the first one is the
// state.
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

double BootTimeSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    if (word == "btime") {
      double seconds = 0;
      file >> seconds;
      return seconds;
    }
  }
  return 0;
}

int OpenFiles() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count - 1;  // the one that reads the folder
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessCollector::Collect() const {
  using prometheus::MetricType;
  // proc(5): utime, stime, starttime, vsize, rss are fields 14, 15, 22, 23, 24; the state is field
  // 3.
  const std::vector<std::string> stat = StatFields();
  if (stat.size() < 22) return {};
  const auto field = [&](int number) { return std::stod(stat[number - 3]); };
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return {
      SingleSeries("process_cpu_seconds_total", "Total user and system CPU time spent in seconds",
                   MetricType::Counter, (field(14) + field(15)) / ticks),
      SingleSeries("process_resident_memory_bytes", "Resident memory size in bytes",
                   MetricType::Gauge, field(24) * static_cast<double>(sysconf(_SC_PAGESIZE))),
      SingleSeries("process_virtual_memory_bytes", "Virtual memory size in bytes",
                   MetricType::Gauge, field(23)),
      SingleSeries("process_start_time_seconds",
                   "Start time of the process since the Unix epoch in seconds", MetricType::Gauge,
                   BootTimeSeconds() + field(22) / ticks),
      SingleSeries("process_open_fds", "Number of open file descriptors", MetricType::Gauge,
                   OpenFiles()),
      SingleSeries("process_max_fds", "Maximum number of open file descriptors", MetricType::Gauge,
                   static_cast<double>(files.rlim_cur)),
  };
}

}  // namespace fovea
