// Attention on AMX's tiles by ATen's threads, each with scratch of its own.
#pragma once
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <cstdint>

#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/simd/amx.h"
#include "kernels/threads.h"

namespace fovea::kernels::attend {

// Calls attend(job, scratch, begin, end) on ATen's threads until all blocks of at most kTileQueries
// queries of all heads of the batch are attended, each once; that job has been cut into them.
// `bytes`: of a thread's scratch, whole cache lines.
template <class Attend>
void ForTiles(TokenSetsJob job, int64_t batch, int64_t bytes, const Attend& attend) {
  job.block_width = kTileQueries;
  job.blocks = (job.queries + job.block_width - 1) / job.block_width;
  const at::Tensor memory = at::empty({ThreadCount(), bytes}, at::kByte);
  char* const scratch = static_cast<char*>(memory.mutable_data_ptr());
  at::parallel_for(0, batch * job.heads * job.blocks, 1, [&](int64_t begin, int64_t end) {
    const simd::AmxTiles tiles;
    attend(job, scratch + at::get_thread_num() * bytes, begin, end);
  });
}

}  // namespace fovea::kernels::attend
