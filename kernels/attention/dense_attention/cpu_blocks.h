// The seam between cpu.cc, which knows tensors and threads, and cpu_blocks.cc, which is compiled
// once per instruction set and knows only memory.
#pragma once
#include <cstdint>

#include "kernels/attention/shared/cpu_token_sets.h"

namespace fovea::kernels::attend {

// Floats that AttendAllKeys wants in TokenSetsScratch::adjusted.
int64_t AllKeysWorkspace(const TokenSetsJob& job);

// Attends blocks [begin, end), counted through all heads of all batch entries. Static-key attention
// runs it too, with other weightings.
void AttendAllKeys(const TokenSetsJob& job, const WeightingTerms& weighting,
                   const TokenSetsScratch& scratch, int64_t begin, int64_t end);

}  // namespace fovea::kernels::attend
