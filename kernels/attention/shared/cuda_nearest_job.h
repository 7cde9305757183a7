// Token sets of which each query attends the nearest alone, as a job of cuda_nearest.h.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/attention/shared/cuda_token_sets.h"
#include "kernels/attention/shared/cuda_weights.h"

namespace fovea::kernels::knn {

// What makes a key near: its logit, or query . key - |key|^2 / 2.
enum class Near { kLogit, kEuclidean };

template <class T, Near kBy>
struct NearestJob : cuda::TokenSetsJob<T, cuda::OnlineSoftmax> {
  using Sets = cuda::TokenSetsJob<T, cuda::OnlineSoftmax>;
  static constexpr Near kNear = kBy;

  struct Sequence : Sets::Sequence {
    using Row = typename Sets::Sequence::Row;
    using Column = typename Sets::Sequence::Column;

    // What walks bring: logits, or products, -inf for keys that their bias makes no neighbours.
    __device__ float Logit(float product, Row row, Column column) const {
      if constexpr (kNear == Near::kLogit) {
        return LogitOf(product, row, column);
      } else {
        const float bias = row.bias == nullptr ? 0.0f : row.bias[column.bias];
        return fabsf(bias) < INFINITY ? product : -INFINITY;
      }
    }
    __device__ float LogitOf(float product, Row row, Column column) const {
      return Sets::Sequence::Logit(product, row, column);
    }
  };

  __device__ Sequence At(int64_t block, int rows) const { return {Sets::At(block, rows)}; }

  int topk;
};

// From KnnAttentionInputs or KnnAttentionExactInputs.
template <class T, Near kNear, class Inputs>
NearestJob<T, kNear> MakeJob(const Inputs& in, const at::Tensor& output) {
  NearestJob<T, kNear> job{};
  cuda::SetTokens(in, output, job);
  job.topk = static_cast<int>(in.topk);
  return job;
}

}  // namespace fovea::kernels::knn
