#include "server/lifecycle/available_cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace fovea {
namespace {

std::optional<double> Ratio(absl::string_view quota, absl::string_view period) {
  int64_t quota_us, period_us;
  if (!absl::SimpleAtoi(quota, &quota_us) || !absl::SimpleAtoi(period, &period_us)) {
    return std::nullopt;  // "max" among them
  }
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;  // version 1: -1 is no limit
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

std::optional<double> QuotaOf(const ReadFile& read, int version, const std::string& folder) {
  if (version == 1) {
    const auto quota = read(folder + "/cpu.cfs_quota_us");
    const auto period = read(folder + "/cpu.cfs_period_us");
    if (!quota || !period) return std::nullopt;
    return Ratio(*quota, *period);
  }
  const auto text = read(folder + "/cpu.max");  // "150000 100000", "max 100000"
  if (!text) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ');
  return fields.size() == 2 ? Ratio(fields[0], fields[1]) : std::nullopt;
}

// Processors in this process's affinity mask; 0 where the kernel does not say.
int AffinityCount() {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* const set = CPU_ALLOC(cpus);
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool fits = sched_getaffinity(0, bytes, set) == 0;
    const int count = fits ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (fits) return count;
  }
  return 0;
}

}  // namespace

int AvailableCpus::threads() const {
  if (!quota) return affinity;
  const double whole = std::floor(std::min<double>(*quota, affinity));
  return std::max(1, static_cast<int>(whole));
}

std::string AvailableCpus::Text() const {
  std::string why;
  if (affinity < machine) why = absl::StrCat("affinity mask ", affinity);
  if (quota)
    absl::StrAppend(&why, why.empty() ? "" : ", ", absl::StrFormat("cgroup quota %.2f", *quota));
  return absl::StrCat(threads(), " of ", machine, " processors",
                      why.empty() ? "" : absl::StrCat(" (", why, ")"));
}

AvailableCpus FindAvailableCpus(int machine, int affinity, const ReadFile& read) {
  AvailableCpus cpus{.machine = std::max(1, machine)};
  cpus.affinity = affinity > 0 ? affinity : cpus.machine;
  const CgroupFolders cgroup = FindCgroup(read, "cpu");
  for (const std::string& folder : cgroup.folders) {
    const std::optional<double> quota = QuotaOf(read, cgroup.version, folder);
    if (quota && (!cpus.quota || *quota < *cpus.quota)) cpus.quota = quota;
  }
  return cpus;
}

AvailableCpus FindAvailableCpus() {
  return FindAvailableCpus(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), AffinityCount(),
                           ReadRealFile);
}

}  // namespace fovea
