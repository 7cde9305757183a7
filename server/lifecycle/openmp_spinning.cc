#include "server/lifecycle/openmp_spinning.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>

namespace fovea {

void SleepEarlyUnderAQuota(const AvailableCpus& cpus, char** argv) {
  // Some hundred microseconds: longer than from one operator to the next, which sleeping and waking
  // would slow down, and little of a period of 100 ms.
  constexpr char kSpins[] = "10000";
  if (!cpus.quota || *cpus.quota >= cpus.affinity) return;
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  char program[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length < 0 || setenv("GOMP_SPINCOUNT", kSpins, /*overwrite=*/0) != 0) return;
  program[length] = '\0';
  execv(program, argv);  // returns only where it fails: the server then spins, and serves
}

}  // namespace fovea
