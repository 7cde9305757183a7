#include "kernels/threads.h"

#include <ATen/Parallel.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <latch>
#include <thread>
#include <vector>

namespace fovea::kernels {

int64_t ThreadCount() {
  at::internal::lazy_init_num_threads();
  return at::get_num_threads();
}

void ShortenTimeSlices() {
  constexpr uint64_t kShortest = 100'000;  // nanoseconds
  // As the kernel's sched_attr, which C libraries older than glibc 2.41 do not declare.
  struct {
    uint32_t size = 48;
    uint32_t policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 0;
    uint64_t deadline = 0;
    uint64_t period = 0;
  } attributes;
  static_assert(sizeof(attributes) == 48);
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return;
  attributes.runtime = kShortest;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void ProbeThreads(int threads) {
  std::vector<pid_t> ids(static_cast<size_t>(threads));
  std::latch all_started(1);  // they are to be there at the same time
  std::vector<std::thread> started;
  const auto end = [&] {
    all_started.count_down();
    for (std::thread& thread : started) thread.join();
  };
  try {
    for (pid_t& id : ids) {
      started.emplace_back([&] {
        id = static_cast<pid_t>(syscall(SYS_gettid));
        all_started.wait();
      });
    }
  } catch (...) {
    end();
    throw;
  }
  end();
  // A thread counts against the system's limits for a moment after it is joined. The wait is
  // limited because another thread may have taken its id since.
  const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  for (const pid_t id : ids) {
    while (syscall(SYS_tgkill, getpid(), id, 0) == 0 &&
           std::chrono::steady_clock::now() < give_up_at) {
      sched_yield();
    }
  }
}

}  // namespace fovea::kernels
