#include "server/observe/host_sampler.h"

#include <fstream>

namespace fovea {
namespace {

constexpr uint64_t kLeastTicks = 10;  // hundredths of a second of one processor

}  // namespace

HostSampler::HostSampler(std::string proc) : proc_(std::move(proc)), last_(ReadTicks()) {}

std::optional<HostSampler::Ticks> HostSampler::ReadTicks() const {
  std::ifstream file(proc_ + "/stat");
  std::string cpu;
  // proc(5): guest times are part of user and nice.
  uint64_t user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(file >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal) ||
      cpu != "cpu") {
    return std::nullopt;
  }
  return Ticks{.busy = user + nice + system + irq + softirq + steal, .idle = idle + iowait};
}

std::optional<double> HostSampler::CpuUtilization() {
  const std::optional<Ticks> now = ReadTicks();
  MutexLock lock(mutex_);
  if (!now || !last_) return std::nullopt;
  // The kernel's sums of idle time may go back a little.
  const uint64_t busy = now->busy > last_->busy ? now->busy - last_->busy : 0;
  const uint64_t idle = now->idle > last_->idle ? now->idle - last_->idle : 0;
  if (busy + idle >= kLeastTicks) {
    utilization_ = static_cast<double>(busy) / static_cast<double>(busy + idle);
    last_ = now;
  }
  return utilization_;
}

std::optional<HostSampler::Memory> HostSampler::ReadMemory() const {
  std::ifstream file(proc_ + "/meminfo");
  uint64_t total_kb = 0, available_kb = 0;
  std::string name, unit;
  for (uint64_t value = 0; (total_kb == 0 || available_kb == 0) && file >> name >> value;) {
    if (name == "MemTotal:") total_kb = value;
    if (name == "MemAvailable:") available_kb = value;
    std::getline(file, unit);
  }
  if (total_kb == 0 || available_kb > total_kb) return std::nullopt;
  return Memory{.total_bytes = total_kb << 10, .used_bytes = (total_kb - available_kb) << 10};
}

}  // namespace fovea
