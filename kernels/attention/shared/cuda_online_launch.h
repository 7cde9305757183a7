// Launches cuda_online.h. For .cu files.
#pragma once
#include <string_view>

#include "kernels/attention/shared/cuda_launch.h"
#include "kernels/attention/shared/cuda_online.h"

namespace fovea::kernels::cuda {

template <class T, class Job, int kDepth>
__global__ void __launch_bounds__(kTileThreads) OnlineKernel(const __grid_constant__ Job job) {
  extern __shared__ __align__(32) unsigned char shared[];
  OnlineBlock<T, Job, kDepth>(job, shared).Run();
}

// On the current stream.
template <class T, class Job>
void LaunchOnline(std::string_view op, const Job& job) {
  ForDepth(job.size.dim, [&](auto depth) {
    constexpr int kDepth = decltype(depth)::value;
    const TileLayout<T, Job, kDepth> layout(job.size);
    LaunchBlocks<Job>(op, OnlineKernel<T, Job, kDepth>, job,
                      job.Blocks(layout.rows) * layout.chunks, layout.Threads(), layout.end,
                      job.size.dim);
  });
}

}  // namespace fovea::kernels::cuda
