// Whether a second thread takes its part of an operator's work: at::parallel_for runs on one
// thread, silently, in a file compiled without -fopenmp.
#pragma once
#include <ATen/Parallel.h>
#include <time.h>

namespace fovea::kernels {

// How much of the processor time that `work` takes on one thread is spent outside the calling
// thread when two share it: about a half; next to nothing when they do not. In processor time, of
// which a waiting caller spends more on a busy machine; helpers may spend less or more than alone,
// as what shares their core and caches suggests.
inline constexpr double kSharedByTwo = 0.1;  // more than nothing, whatever else the machine does
template <typename Work>
double HelpersShare(const Work& work) {
  const auto seconds = [](clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const auto own = [&] { return seconds(CLOCK_THREAD_CPUTIME_ID); };
  const auto helpers = [&] { return seconds(CLOCK_PROCESS_CPUTIME_ID) - own(); };
  const int threads_before = at::get_num_threads();

  // Long against the time for which idle helpers look out for work before they sleep.
  constexpr double kEnough = 0.05;
  at::set_num_threads(1);
  work();
  int calls = 0;
  double alone = -own();
  do {
    work();
    ++calls;
  } while (alone + own() < kEnough);
  alone += own();

  at::set_num_threads(2);
  work();
  double shared = -helpers();
  for (int i = 0; i < calls; ++i) work();
  shared += helpers();

  at::set_num_threads(threads_before);
  return shared / alone;
}

}  // namespace fovea::kernels
