#include "kernels/attention/shared/cpu_token_sets.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "kernels/attention/shared/cpu_scratch.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "kernels/threads.h"

namespace fovea::kernels::attend {
namespace {

// Whether pairs of channels can be read and written as words.
bool InWords(const at::Tensor& t) {
  if (t.size(-1) % 2 != 0 || reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 4 != 0) return false;
  const at::IntArrayRef strides = t.strides();
  return std::all_of(strides.begin(), strides.end() - 1, [](int64_t n) { return n % 2 == 0; });
}

}  // namespace

int64_t LanesNow() { return simd::CurrentIsa() == simd::Isa::kAvx512 ? 16 : 8; }

Rows RowsOf(const at::Tensor& tensor) {
  // Not mutable_data_ptr: the inputs are only read, and may be shared copy-on-write.
  return {const_cast<void*>(tensor.const_data_ptr()), tensor.stride(0), tensor.stride(1),
          tensor.stride(2)};
}

Arithmetic ChooseArithmetic(const at::Tensor& query, const at::Tensor& output, int64_t depth) {
  if (query.scalar_type() == at::kFloat) return Arithmetic::kFp32;
  const bool bf16_products =
      simd::HasBf16Gemm() && depth % 2 == 0 && InWords(query) && InWords(output);
  return bf16_products ? Arithmetic::kBf16Gemm : Arithmetic::kWidenedBf16;
}

WeightingTerms TermsOf(const Activation& activation) {
  const auto kind = [&] {
    switch (activation.kind) {
      case ActivationKind::kSoftmax:
        return Weighting::kSoftmax;
      case ActivationKind::kGelu:
        return Weighting::kGelu;
      case ActivationKind::kRelu:
        return Weighting::kRelu;
      case ActivationKind::kStarRelu:
        return Weighting::kStarRelu;
    }
    TORCH_INTERNAL_ASSERT(false, "no such activation");
  }();
  return {kind, static_cast<float>(activation.scale), static_cast<float>(activation.bias)};
}

// Two vectors fill multiply-inl.h's register tile and keep the logits small; oneDNN's bf16 kernels
// need more rows to be fast.
int64_t BlockWidth(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kBf16Gemm ? 4 * LanesNow() : 2 * LanesNow();
}

TokenSetsJob MakeTokenSetsJob(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const std::optional<at::Tensor>& bias,
                              double scale, const at::Tensor& output) {
  TokenSetsJob job{};
  job.arithmetic = ChooseArithmetic(query, output, query.size(3));
  job.query = RowsOf(query);
  job.key = RowsOf(key);
  job.value = RowsOf(value);
  job.output = RowsOf(output);
  if (bias) {
    job.bias = bias->const_data_ptr<float>();
    job.bias_batch = bias->stride(0);
    job.bias_head = bias->stride(1);
    job.bias_query = bias->stride(2);
    job.bias_key = bias->stride(3);
  }
  job.heads = query.size(1);
  job.queries = query.size(2);
  job.keys = key.size(2);
  job.dim = query.size(3);
  job.value_dim = value.size(3);
  job.scale = static_cast<float>(scale);
  job.block_width = BlockWidth(job.arithmetic);
  job.blocks = (job.queries + job.block_width - 1) / job.block_width;
  return job;
}

void ForTokenSets(const TokenSetsJob& job, int64_t batch, int64_t adjusted_floats,
                  const std::function<void(const TokenSetsScratch&, int64_t, int64_t)>& attend) {
  const bool widened = job.arithmetic == Arithmetic::kWidenedBf16;
  const bool transposed = job.arithmetic == Arithmetic::kBf16Gemm;
  ScratchLayout layout;
  const int64_t logits = layout.Take((job.keys + 1) * job.block_width);
  const int64_t adjusted = layout.Take(adjusted_floats);
  const int64_t query = layout.Take(job.dim * job.block_width);
  const int64_t output = layout.Take(job.dim * job.block_width);
  const int64_t row_factors = layout.Take(job.block_width);
  const int64_t key = layout.Take(widened ? job.keys * job.dim : 0);
  const int64_t value = layout.Take(widened      ? job.keys * job.dim
                                    : transposed ? (job.keys + 1) * job.dim / 2
                                                 : 0);
  const at::Tensor memory = AllocateScratch(layout, ThreadCount());
  float* const base = memory.mutable_data_ptr<float>();

  // Starting a thread costs about a million multiply-adds.
  const int64_t block_cost = 2 * job.keys * job.dim * std::min(job.block_width, job.queries);
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 20) / block_cost);
  at::parallel_for(0, batch * job.heads * job.blocks, grain, [&](int64_t begin, int64_t end) {
    float* const own = base + at::get_thread_num() * layout.floats();
    attend({own + logits, own + adjusted, own + query, own + output, own + row_factors, own + key,
            own + value},
           begin, end);
  });
}

}  // namespace fovea::kernels::attend
