// The CPU implementation, outermost: tensors into raw memory, blocks of rows over threads.
// cpu_blocks.cc has the algorithm.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "kernels/attention/knn_attention/cpu_blocks.h"
#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/simd/bf16_gemm.h"

namespace fovea::kernels {
namespace {

using knn::Arithmetic;
using knn::Job;
using knn::Rows;
using knn::Scratch;

Rows RowsOf(const at::Tensor& tensor) {
  // Not mutable_data_ptr: the inputs are only read, and may be shared copy-on-write.
  return {const_cast<void*>(tensor.const_data_ptr()), tensor.stride(0), tensor.stride(1),
          tensor.stride(2)};
}

// Whether pairs of channels can be read and written as words.
bool InWords(const at::Tensor& t) {
  const auto even = [](int64_t n) { return n % 2 == 0; };
  return even(t.size(3)) && even(t.stride(0)) && even(t.stride(1)) && even(t.stride(2)) &&
         reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 4 == 0;
}

Arithmetic ChooseArithmetic(const KnnAttentionInputs& in, const at::Tensor& output) {
  if (in.query.scalar_type() == at::kFloat) return Arithmetic::kFp32;
  const bool bf16_products = simd::HasBf16Gemm() && InWords(in.query) && InWords(output);
  return bf16_products ? Arithmetic::kBf16Gemm : Arithmetic::kWidenedBf16;
}

// Two vectors fill multiply-inl.h's register tile and keep the logits small; oneDNN's bf16 kernels
// need more rows to be fast.
int64_t BlockWidth(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kBf16Gemm ? 4 * knn::LanesNow() : 2 * knn::LanesNow();
}

Job JobOf(const KnnAttentionInputs& in, const at::Tensor& output) {
  Job job{};
  job.arithmetic = ChooseArithmetic(in, output);
  job.query = RowsOf(in.query);
  job.key = RowsOf(in.key);
  job.value = RowsOf(in.value);
  job.output = RowsOf(output);
  if (in.bias) {
    job.bias = in.bias->const_data_ptr<float>();
    job.bias_batch = in.bias->stride(0);
    job.bias_head = in.bias->stride(1);
    job.bias_query = in.bias->stride(2);
    job.bias_key = in.bias->stride(3);
  }
  job.heads = in.query.size(1);
  job.queries = in.query.size(2);
  job.keys = in.key.size(2);
  job.dim = in.query.size(3);
  job.topk = static_cast<int32_t>(in.topk);
  job.scale = static_cast<float>(in.scale);
  if (in.topk < job.keys) job.rank = knn::RankInNormal(in.topk, job.keys);
  job.block_width = BlockWidth(job.arithmetic);
  job.blocks = (job.queries + job.block_width - 1) / job.block_width;
  return job;
}

// Where a thread's scratch has its parts.
class ScratchLayout {
 public:
  explicit ScratchLayout(const Job& job) {
    const bool widened = job.arithmetic == Arithmetic::kWidenedBf16;
    const bool transposed = job.arithmetic == Arithmetic::kBf16Gemm;
    logits_ = Take((job.keys + 1) * job.block_width);
    lanes_ = Take(job.keys * knn::LanesNow());
    query_ = Take(job.dim * job.block_width);
    output_ = Take(job.dim * job.block_width);
    row_factors_ = Take(job.block_width);
    key_ = Take(widened ? job.keys * job.dim : 0);
    value_ = Take(widened ? job.keys * job.dim : transposed ? (job.keys + 1) * job.dim / 2 : 0);
  }

  int64_t floats() const { return floats_; }

  Scratch At(float* base) const {
    return {base + logits_,      base + lanes_, base + query_, base + output_,
            base + row_factors_, base + key_,   base + value_};
  }

 private:
  int64_t Take(int64_t floats) {
    const int64_t begin = floats_;
    floats_ += (floats + 15) / 16 * 16;  // whole cache lines
    return begin;
  }

  int64_t floats_ = 0;
  int64_t logits_, lanes_, query_, output_, row_factors_, key_, value_;
};

}  // namespace

void KnnAttentionCpu(const KnnAttentionInputs& in, const at::Tensor& output) {
  const Job job = JobOf(in, output);
  const ScratchLayout layout(job);
  // parallel_for does this too, and may so change the number of threads: it must not do it between
  // here and there.
  at::internal::lazy_init_num_threads();
  // Allocated here and not by the threads, so that whoever counts this thread's memory sees it.
  const at::Tensor scratch =
      at::empty({at::get_num_threads(), layout.floats()}, in.query.options().dtype(at::kFloat));
  float* const memory = scratch.mutable_data_ptr<float>();

  // Starting a thread costs about a million multiply-adds.
  const int64_t block_cost = 2 * job.keys * job.dim * std::min(job.block_width, job.queries);
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 20) / block_cost);
  at::parallel_for(0, in.query.size(0) * job.heads * job.blocks, grain,
                   [&](int64_t begin, int64_t end) {
                     float* const own = memory + at::get_thread_num() * layout.floats();
                     knn::AttendBlocks(job, layout.At(own), begin, end);
                   });
}

}  // namespace fovea::kernels
