// How long OpenMP's threads spin for work before they sleep.
#pragma once

#include "server/lifecycle/available_cpus.h"

namespace fovea {

// Where a cgroup's quota bounds the process, helpers that spin between two batches use it up, and
// everything stands still until the next period. libgomp has no call for that: it reads
// GOMP_SPINCOUNT when it is loaded, so this puts it into the environment and starts the program
// anew, in the same process. Returns where there is nothing to do, among others because the
// environment says already how to wait. To be called first in main, with its arguments.
void SleepEarlyUnderAQuota(const AvailableCpus& cpus, char** argv);

}  // namespace fovea
