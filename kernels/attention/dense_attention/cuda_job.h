// Dense attention as a job of shared/cuda_online.h.
#pragma once
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/shared/cuda_token_sets.h"
#include "kernels/attention/shared/cuda_weights.h"

namespace fovea::kernels {

template <class T>
cuda::TokenSetsJob<T, cuda::OnlineSoftmax> MakeJob(const DenseAttentionInputs& in,
                                                   const at::Tensor& output) {
  cuda::TokenSetsJob<T, cuda::OnlineSoftmax> job{};
  cuda::SetTokens(in, output, job);
  return job;
}

}  // namespace fovea::kernels
