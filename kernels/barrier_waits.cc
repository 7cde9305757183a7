#include "kernels/barrier_waits.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "kernels/other_processes.h"
#include "kernels/threads.h"

namespace fovea::kernels {
namespace {

using std::chrono::steady_clock;

constexpr auto kSamplePeriod = std::chrono::milliseconds(250);
// An attempt briefly takes the system's last threads away from other programs.
constexpr auto kBetweenTries = std::chrono::minutes(1);

// Standard deviation of a core's share of kSamplePeriod, whose start and end are each rounded to a
// hundredth of a second: 10 ms / sqrt(6) / 250 ms.
constexpr double kErrorOfCore = 0.016;

}  // namespace

BarrierWaitPolicy::BarrierWaitPolicy(int cores, int threads)
    : spare_(std::max(0, cores - threads) + kErrorOfCore * std::sqrt(cores)) {}

bool BarrierWaitPolicy::ShouldSleep(double others) {
  if (IsContended(others)) {
    sleep_ = true;
    quiet_ = 0;
  } else if (others < spare_ + kQuiet) {
    if (++quiet_ >= kQuietSamples) sleep_ = false;
  } else {
    quiet_ = 0;
  }
  return sleep_;
}

SleepingBarriers::SleepingBarriers() {
  const int cores = omp_get_num_procs();
  ProbeThreads(cores);
#pragma omp parallel num_threads(cores + 1)
  asm volatile("");  // the compiler drops an empty region
}

SleepingBarriers::~SleepingBarriers() { omp_pause_resource_all(omp_pause_soft); }

AdaptiveBarrierWaits::AdaptiveBarrierWaits(int threads, std::function<void(bool, double)> on_change,
                                           OtherCoresReader others)
    : on_change_(std::move(on_change)), others_(std::move(others)) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  thread_ = std::thread([this, threads] { Watch(threads); });
}

AdaptiveBarrierWaits::~AdaptiveBarrierWaits() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void AdaptiveBarrierWaits::Watch(int threads) {
  OtherProcesses processes;
  const auto cores_of_others = [&] { return others_ ? others_() : processes.CoresSinceLast(); };
  BarrierWaitPolicy policy(omp_get_num_procs(), threads);
  std::optional<SleepingBarriers> sleeping;
  steady_clock::time_point try_at = steady_clock::now();
  std::unique_lock lock(mutex_);
  for (;;) {
    lock.unlock();
    try {
      const std::optional<double> cores = cores_of_others();
      const bool sleep = cores ? policy.ShouldSleep(*cores) : sleeping.has_value();
      if (sleep != sleeping.has_value() && steady_clock::now() >= try_at) {
        sleep ? (void)sleeping.emplace() : sleeping.reset();
        if (on_change_) on_change_(sleep, *cores);
      }
    } catch (const std::system_error&) {  // no thread to be had
      try_at = steady_clock::now() + kBetweenTries;
    } catch (const std::bad_alloc&) {  // no memory for this sample
    }
    lock.lock();
    if (changed_.wait_for(lock, kSamplePeriod, [this] { return stopping_; })) return;
  }
}

}  // namespace fovea::kernels
