// Dense attention as a job of shared/cuda_online.h.
#pragma once
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/shared/cuda_token_sets.h"

namespace fovea::kernels {

template <class T>
cuda::TokenSetsJob<T, cuda::OnlineSoftmax> MakeJob(const DenseAttentionInputs& in,
                                                   const at::Tensor& output) {
  cuda::TokenSetsJob<T, cuda::OnlineSoftmax> job{};
  job.size = cuda::SizeOf(in.query.size(3), in.query.size(2), in.key.size(2),
                          cuda::AreVectorAligned({in.query, in.key, in.value, output}));
  job.query = cuda::TokensOf<T>(in.query);
  job.key = cuda::TokensOf<T>(in.key);
  job.value = cuda::TokensOf<T>(in.value);
  job.output = cuda::WritableTokensOf<T>(output);
  job.bias = cuda::LogitBiasOf(in.bias);
  job.batch = in.query.size(0);
  job.heads = in.query.size(1);
  job.scale = static_cast<float>(in.scale);
  return job;
}

}  // namespace fovea::kernels
