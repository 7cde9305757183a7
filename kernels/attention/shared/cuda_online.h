// Attention on CUDA in one walk over the keys, one thread block's work: all operators that select
// nothing. Device code; cuda_online_launch.h launches it, and tests/kernels/cuda_on_host runs it
// where there is no GPU.
//
// cuda_tiles.h brings the logits of a tile of keys, cuda_weights.h makes weights of them, and their
// product with the values is added to the output before the next tile's (Dao, FlashAttention-2,
// 2023).
//
// A job is one of cuda_tiles.h's, with
//   Weights, Weights::Parameters weights   OnlineSoftmax or Elementwise
//   kResumes, kSuspends                    each query's state comes from, or goes to, the job's
//                                          StateOf(sequence, i)
#pragma once
#include "kernels/attention/shared/cuda_tiles.h"
#include "kernels/attention/shared/cuda_weights.h"

namespace fovea::kernels::cuda {

// One query's unfinished softmax, in global memory.
struct SavedState {
  float* output;  // [head_dim], not normalised
  float* largest_and_sum;
};

// One block's work.
template <class T, class Job, int kDepth>
class OnlineBlock {
 public:
  __device__ OnlineBlock(const Job& job, unsigned char* shared)
      : job_(job), tiles_(job, shared), weights_(job.weights) {}

  __device__ void Run() {
    tiles_.CopyQueries();
    if constexpr (Job::kResumes) Resume();
    tiles_.template Walk</*kMostTiles=*/0, /*kWithValues=*/true>(
        [](int, const T*) {},
        [&](int tile, TileRows& logits) {
          weights_.Weigh(logits, tiles_.KeysIn(tile), tiles_.output());
        });
    if (tiles_.IsIdle()) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (Job::kSuspends) {
        Suspend(i);
      } else {
        tiles_.Store(i, weights_.Factor(i));
      }
    }
  }

 private:
  __device__ SavedState StateOf(int i) const {
    return job_.StateOf(tiles_.sequence(), tiles_.Query(i));
  }

  __device__ void Resume() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!tiles_.HasQuery(i)) continue;
      const SavedState saved = StateOf(i);
      weights_.Resume(i, saved.largest_and_sum[0], saved.largest_and_sum[1]);
      tiles_.ForEachChannel(i, [&](int channel, float& x) { x = saved.output[channel]; });
    }
  }

  __device__ void Suspend(int i) {
    const float sum = weights_.Sum(i);  // of all lanes
    if (!tiles_.HasQuery(i)) return;
    const SavedState saved = StateOf(i);
    saved.largest_and_sum[0] = weights_.Largest(i);
    saved.largest_and_sum[1] = sum;
    tiles_.ForEachChannel(i, [&](int channel, float& x) { saved.output[channel] = x; });
  }

  const Job& job_;
  TileBlock<T, Job, kDepth> tiles_;
  typename Job::Weights weights_;
};

}  // namespace fovea::kernels::cuda
