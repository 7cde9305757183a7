// How OpenMP's threads wait for one another at barriers.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace fovea::kernels {

// Decides how OpenMP's threads wait at barriers. While each has a core to itself they spin, which
// is fastest. Beside other programs a spinning thread occupies a core that the thread it waits for
// needs, so that a barrier takes as long as the system's time slice, and they sleep. Pure.
class BarrierWaitPolicy {
 public:
  BarrierWaitPolicy(int cores, int threads);

  // `others`: cores that other processes used on average over the last sample period. Sleeping
  // begins with the first busy sample, because one late barrier costs more than many sleeps;
  // spinning begins again after kQuietSamples.
  bool ShouldSleep(double others);

  // Whether `others` leave the threads less than a core each.
  bool IsContended(double others) const { return others >= spare_ + kBusy; }

  // Cores' worth of other processes' work that count as one core taken: more than what the system's
  // own tasks use, less than what one busy process leaves of a core shared fairly.
  static constexpr double kBusy = 0.25;
  static constexpr double kQuiet = 0.12;
  static constexpr int kQuietSamples = 4;

 private:
  // Cores that no thread needs, and how far a sample is off because the system counts each core's
  // time in hundredths of a second.
  const double spare_;
  bool sleep_ = false;
  int quiet_ = 0;
};

// Applies BarrierWaitPolicy to the process, four times a second, for as long as it lives. Leaves
// the waits alone where the environment sets them (OMP_WAIT_POLICY, GOMP_SPINCOUNT) or the system
// does not report its cores' times.
//
// libgomp has no call that sets how long threads spin. It spins 1/3000 as long while it has more
// threads than there are cores (libgomp/config/linux/wait.h), so this keeps that many idle ones
// where threads are to sleep.
class AdaptiveBarrierWaits {
 public:
  // Cores that other processes used since the last call; nullopt: unknown.
  using OtherCoresReader = std::function<std::optional<double>()>;

  // `threads`: of one parallel region at most. `on_change`, called on a thread of its own, hears
  // of each change with the cores that others used; may be null. `others` null: OtherProcesses.
  // Throws std::system_error where the system has no thread left.
  explicit AdaptiveBarrierWaits(int threads,
                                std::function<void(bool sleep, double others)> on_change = nullptr,
                                OtherCoresReader others = nullptr);
  ~AdaptiveBarrierWaits();
  AdaptiveBarrierWaits(const AdaptiveBarrierWaits&) = delete;
  AdaptiveBarrierWaits& operator=(const AdaptiveBarrierWaits&) = delete;

 private:
  void Watch(int threads);

  const std::function<void(bool, double)> on_change_;
  const OtherCoresReader others_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses the others
};

// Makes OpenMP's threads sleep at barriers while it lives. Used by one thread.
class SleepingBarriers {
 public:
  // Throws std::system_error where the system has no room for the threads that it keeps.
  SleepingBarriers();
  ~SleepingBarriers();
  SleepingBarriers(const SleepingBarriers&) = delete;
  SleepingBarriers& operator=(const SleepingBarriers&) = delete;
};

}  // namespace fovea::kernels
