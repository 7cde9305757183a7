// The threads that share a call's work on the CPU.
#pragma once

#include <cstdint>

namespace fovea::kernels {

// Number of threads that at::parallel_for uses. Its first call may initialise them, and so change
// their number: this initialises them first.
int64_t ThreadCount();

// Starts this many threads at once and ends them again, to check that the system allows them.
// libgomp ends the process if it is refused a thread, so call this just before a parallel region
// that starts helpers; only the moment between the two remains. Throws std::system_error if one is
// refused.
void ProbeThreads(int threads);

// Asks the system for short time slices for this thread and those that it starts from now on
// (sched_setattr(2), Linux 6.12; nothing happens on older ones). Beside busy programs a thread that
// wakes up at the end of a parallel region then runs at once, not after their slices of some
// milliseconds. Its share of the processor stays the same.
void ShortenTimeSlices();

}  // namespace fovea::kernels
