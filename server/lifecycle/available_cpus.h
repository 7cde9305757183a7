// How many processors the process has for itself. In a container that is not what the machine has:
// more threads than its quota allows use up the quota early in each period, and everything then
// stands still until the next.
#pragma once

#include <optional>
#include <string>

#include "server/lifecycle/cgroup.h"

namespace fovea {

struct AvailableCpus {
  int machine = 1;              // that are online
  int affinity = 1;             // of those, that the process may run on
  std::optional<double> quota;  // processors' worth of time that its cgroup gives it

  // Threads that may be busy all the time: at least 1. A quota of 2.5 is 2: the half is left to the
  // threads that are busy now and then.
  int threads() const;
  // "2 of 64 processors (affinity mask 8, cgroup quota 2.50)".
  std::string Text() const;
};

// `machine` and `affinity` as given; the quota is the tightest of the process's cgroup and those
// above it. A file that cannot be read or understood bounds nothing.
AvailableCpus FindAvailableCpus(int machine, int affinity, const ReadFile& read);

// Of this process.
AvailableCpus FindAvailableCpus();

}  // namespace fovea
