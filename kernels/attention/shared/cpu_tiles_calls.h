// What the operators that may run on AMX's tiles share outside of instruction sets: tensors'
// memory, threads, and the choice between panels and tiles.
#pragma once
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/choice/choice.h"
#include "kernels/memory/memory_ledger.h"
#include "kernels/simd/amx.h"
#include "kernels/threads.h"

namespace fovea::kernels::attend {

// Calls attend(job, scratch, begin, end) on ATen's threads until all blocks of kTileRows queries of
// all heads of the batch are attended, each once. `bytes`: of a thread's scratch.
template <class Attend>
void ForTiles(TokenSetsJob job, int64_t batch, int64_t bytes, const Attend& attend) {
  job.block_width = kTileRows;
  job.blocks = (job.queries + job.block_width - 1) / job.block_width;
  const at::Tensor memory = at::empty({ThreadCount(), bytes}, at::kByte);
  char* const scratch = static_cast<char*>(memory.mutable_data_ptr());
  at::parallel_for(0, batch * job.heads * job.blocks, 1, [&](int64_t begin, int64_t end) {
    const simd::AmxTiles tiles;
    attend(job, scratch + at::get_thread_num() * bytes, begin, end);
  });
}

// The place of the faster one of `panels` and `tiles`, which run(way) runs.
template <class Way, class Run>
size_t FasterOfPanelsAndTiles(const std::string& question, const Run& run) {
  const UncountedMemory uncounted;
  const Candidate candidates[] = {
      {"panels", [&] { run(Way::kPanels); }},
      {"tiles", [&] { run(Way::kTiles); }},
  };
  return Fastest(question, candidates);
}

}  // namespace fovea::kernels::attend
