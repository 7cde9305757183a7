// Where and when comparisons, sweeps and experiments are measured.
#pragma once

#include "kernels/other_processes.h"
#include "server/core/comparison.h"

namespace fovea {

// Provenance of a measurement that begins now, without the cores of other processes.
Provenance ProvenanceNow();

// Watches the machine from construction to Take. Not thread-safe.
class ProvenanceWatch {
 public:
  // `threads`: how many run a pass at most.
  Provenance Take(int threads);

 private:
  Provenance provenance_ = ProvenanceNow();
  kernels::OtherProcesses others_;
};

}  // namespace fovea
