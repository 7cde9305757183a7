// The seam between cpu.cc, which knows tensors and threads, and cpu_blocks.cc, which is compiled
// once per instruction set and knows only memory.
#pragma once
#include <cstdint>

#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/attention/shared/select.h"

namespace fovea::kernels::knn {

// Attends blocks [begin, end), counted through all heads of all batch entries. Wants a vector of
// rows, [keys, lanes], in TokenSetsScratch::adjusted.
void AttendBlocks(const attend::TokenSetsJob& job, const Selection& selection,
                  const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end);

}  // namespace fovea::kernels::knn
