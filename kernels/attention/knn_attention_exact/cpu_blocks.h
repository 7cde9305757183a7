// The seam between cpu.cc, which knows tensors and threads, and cpu_blocks.cc, which is compiled
// once per instruction set and knows only memory.
#pragma once
#include <cstdint>

#include "kernels/attention/knn_attention/cpu_blocks.h"
#include "kernels/attention/shared/cpu_token_sets.h"

namespace fovea::kernels::knn {

// Floats that AttendBlocksExact wants in TokenSetsScratch::adjusted.
int64_t ExactWorkspace(const attend::TokenSetsJob& job);

// Attends blocks [begin, end), counted through all heads of all batch entries.
void AttendBlocksExact(const attend::TokenSetsJob& job, const Selection& selection,
                       const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end);

}  // namespace fovea::kernels::knn
