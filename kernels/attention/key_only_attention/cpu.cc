// The CPU implementation, outermost: tensors into raw memory, chunks of tokens over threads, and
// the chunks' sums into one. cpu_tokens.cc has the algorithm.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/attention/key_only_attention/cpu_tokens.h"
#include "kernels/attention/key_only_attention/implementations.h"

namespace fovea::kernels {
namespace {

using key_only::ContextJob;
using key_only::kPartialExtra;
using key_only::ProductJob;

// Starting a thread costs about as much as going through so many elements.
constexpr int64_t kElementsPerThread = int64_t{1} << 15;

int64_t GrainFor(int64_t elements) { return std::max<int64_t>(1, kElementsPerThread / elements); }

at::Tensor FloatScratch(at::IntArrayRef sizes) { return at::empty(sizes, at::kFloat); }

// One head's chunks, `stride` floats apart, into `context`. Weights are relative to a chunk's
// largest logit; here they become relative to the head's. NaN stays NaN in every path: a sum that
// is 0 * NaN or 0 / 0 is the softmax's own.
void MergeChunks(const float* partials, int64_t stride, int64_t chunks, int64_t dim,
                 float* context) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < chunks; ++i) largest = std::max(largest, partials[i * stride + dim]);
  std::fill_n(context, dim, 0.0f);
  float sum = 0.0f;
  for (int64_t i = 0; i < chunks; ++i) {
    const float* partial = partials + i * stride;
    const float factor = partial[dim] == largest ? 1.0f : std::exp(partial[dim] - largest);
    sum += partial[dim + 1] * factor;
    for (int64_t c = 0; c < dim; ++c) context[c] += partial[c] * factor;
  }
  const float normalise = 1.0f / sum;
  for (int64_t c = 0; c < dim; ++c) context[c] *= normalise;
}

}  // namespace

at::Tensor KeyOnlyContextCpu(const at::Tensor& key, const at::Tensor& saliency, double scale) {
  const at::Tensor gate = saliency.to(at::kFloat).contiguous();
  ContextJob job{};
  job.bf16 = key.scalar_type() == at::kBFloat16;
  job.key = key.const_data_ptr();
  job.key_batch = key.stride(0);
  job.key_head = key.stride(1);
  job.key_token = key.stride(2);
  job.saliency = gate.const_data_ptr<float>();
  job.heads = key.size(1);
  job.tokens = key.size(2);
  job.dim = key.size(3);
  job.scale = static_cast<float>(scale);
  job.chunks = (job.tokens + key_only::kChunk - 1) / key_only::kChunk;
  // parallel_for does this too, and may so change the number of threads: it must not do it between
  // the allocation of their scratch and there.
  at::internal::lazy_init_num_threads();
  const int64_t batch = key.size(0);
  const int64_t partial_size = job.dim + kPartialExtra;
  const at::Tensor partials = FloatScratch({batch, job.chunks, job.heads, partial_size});
  const at::Tensor widened =
      FloatScratch({job.bf16 ? at::get_num_threads() : 0, key_only::kBlock, job.dim});
  job.partials = partials.mutable_data_ptr<float>();
  float* const memory = widened.mutable_data_ptr<float>();
  const int64_t chunk_tokens = job.tokens / job.chunks;
  at::parallel_for(0, batch * job.chunks, GrainFor(chunk_tokens * job.heads * job.dim),
                   [&](int64_t begin, int64_t end) {
                     float* const own =
                         job.bf16 ? memory + at::get_thread_num() * key_only::kBlock * job.dim
                                  : nullptr;
                     key_only::SumChunks(job, own, begin, end);
                   });

  at::Tensor context = FloatScratch({batch, job.heads, job.dim});
  float* const out = context.mutable_data_ptr<float>();
  at::parallel_for(0, batch * job.heads, GrainFor(job.chunks * job.dim),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t first = i / job.heads * job.chunks * job.heads + i % job.heads;
                       MergeChunks(job.partials + first * partial_size, job.heads * partial_size,
                                   job.chunks, job.dim, out + i * job.dim);
                     }
                   });
  return context;
}

void KeyOnlyProductCpu(const at::Tensor& context, const at::Tensor& value,
                       const at::Tensor& output) {
  ProductJob job{};
  job.bf16 = value.scalar_type() == at::kBFloat16;
  job.value = value.const_data_ptr();
  job.value_batch = value.stride(0);
  job.value_head = value.stride(1);
  job.value_token = value.stride(2);
  job.output = output.mutable_data_ptr();
  job.output_batch = output.stride(0);
  job.output_head = output.stride(1);
  job.output_token = output.stride(2);
  job.context = context.const_data_ptr<float>();
  job.heads = value.size(1);
  job.tokens = value.size(2);
  job.dim = value.size(3);
  if (job.value_head == job.dim && job.output_head == job.dim) {
    job.dim *= job.heads;  // a token's heads lie side by side: one long head
    job.heads = 1;
  }
  at::internal::lazy_init_num_threads();
  const at::Tensor widened = FloatScratch({at::get_num_threads(), job.dim});
  float* const memory = widened.mutable_data_ptr<float>();
  at::parallel_for(0, value.size(0) * job.tokens, GrainFor(job.heads * job.dim),
                   [&](int64_t begin, int64_t end) {
                     float* const own = memory + at::get_thread_num() * job.dim;
                     key_only::MultiplyTokens(job, own, begin, end);
                   });
}

void KeyOnlyAttentionCpu(const KeyOnlyAttentionInputs& in, const at::Tensor& output) {
  KeyOnlyProductCpu(KeyOnlyContextCpu(in.key, in.saliency, in.scale), in.value, output);
}

}  // namespace fovea::kernels
