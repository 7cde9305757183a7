// Launches cuda_nearest.h. For .cu files.
#pragma once
#include <string_view>

#include "kernels/attention/shared/cuda_launch.h"
#include "kernels/attention/shared/cuda_nearest.h"

namespace fovea::kernels::knn {

template <class T, class Job, int kDepth, int kKeptTiles>
__global__ void __launch_bounds__(cuda::kTileThreads)
    NearestKernel(const __grid_constant__ Job job) {
  extern __shared__ __align__(32) unsigned char shared[];
  NearestBlock<T, Job, kDepth, kKeptTiles>(job, shared).Run();
}

// On the current stream.
template <class T, class Job>
void LaunchNearest(std::string_view op, const Job& job) {
  cuda::ForDepth(job.size.dim, [&](auto depth) {
    ForKeptTiles(job.size.keys, [&](auto tiles) {
      constexpr int kDepth = decltype(depth)::value;
      constexpr int kKeptTiles = decltype(tiles)::value;
      const cuda::TileLayout<T, Job, kDepth> layout(job.size);
      cuda::LaunchBlocks<Job>(op, NearestKernel<T, Job, kDepth, kKeptTiles>, job,
                              job.Blocks(layout.rows) * layout.chunks, layout.Threads(),
                              NearestBlock<T, Job, kDepth, kKeptTiles>::SharedBytes(layout),
                              job.size.dim);
    });
  });
}

}  // namespace fovea::kernels::knn
