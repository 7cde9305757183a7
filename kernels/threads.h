// The threads that share a call's work on the CPU.
#pragma once
#include <cstdint>

namespace fovea::kernels {

// How many at::parallel_for will have. It may initialise them at its first call, and so change
// their number: this does it before.
int64_t ThreadCount();

}  // namespace fovea::kernels
