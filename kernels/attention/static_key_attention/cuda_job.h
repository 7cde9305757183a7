// Static-key attention as a job of shared/cuda_online.h.
#pragma once
#include "kernels/attention/shared/cuda_token_sets.h"
#include "kernels/attention/static_key_attention/implementations.h"

namespace fovea::kernels {

// Weights: what in.activation takes.
template <class T, class Weights>
cuda::TokenSetsJob<T, Weights> MakeJob(const StaticKeyAttentionInputs& in,
                                       const at::Tensor& output) {
  cuda::TokenSetsJob<T, Weights> job{};
  job.size = cuda::SizeOf(in.query.size(3), in.query.size(2), in.value.size(2),
                          cuda::AreVectorAligned({in.query, in.static_key, in.value, output}));
  job.weights = Weights::ParametersOf(in.activation);
  job.query = cuda::TokensOf<T>(in.query);
  job.key = {cuda::ReadOnly<T>(in.static_key), /*batch=*/0, in.static_key.stride(0),
             in.static_key.stride(1)};
  job.value = cuda::TokensOf<T>(in.value);
  job.output = cuda::WritableTokensOf<T>(output);
  job.batch = in.query.size(0);
  job.heads = in.query.size(1);
  job.scale = static_cast<float>(in.scale);
  return job;
}

}  // namespace fovea::kernels
