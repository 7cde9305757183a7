// The CPU implementation, in two passes (shared/cpu_windows.h): rows are attended as windows of
// (1, W), their softmaxes kept undivided in fp32; then columns, without the position itself, and
// both are merged. What is kept is as large as the map.
#include <ATen/Functions.h>

#include "kernels/attention/criss_cross_attention/implementations.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/attention/shared/cpu_windows.h"

namespace fovea::kernels {

void CrissCrossAttentionCpu(const CrissCrossAttentionInputs& in, const at::Tensor& output) {
  const int64_t heads = in.query.size(1), height = in.query.size(2), width = in.query.size(3);
  const at::TensorOptions fp32 = in.query.options().dtype(at::kFloat);
  const at::Tensor kept = at::empty(in.query.sizes(), fp32);
  const at::Tensor largest = at::empty({in.query.size(0), heads, height, width}, fp32);
  const at::Tensor sum = at::empty_like(largest);
  const auto pass = [&](std::array<int64_t, 2> window, attend::Outcome outcome) {
    attend::WindowsJob job =
        attend::MakeWindowsJob(AttentionWay::kPanels, in.query, in.key, in.value, output, 0, heads,
                               window, {0, 0}, in.scale, std::nullopt);
    if (job.arithmetic == attend::Arithmetic::kBf16Gemm) {
      job.arithmetic = attend::Arithmetic::kWidenedBf16;  // partial results are fp32
      job.block_width = attend::BlockWidth(job.arithmetic);
    }
    job.sees_itself = outcome == attend::Outcome::kKept;  // once, on its row
    job.outcome = outcome;
    job.partial = {kept.mutable_data_ptr<float>(), largest.mutable_data_ptr<float>(),
                   sum.mutable_data_ptr<float>()};
    attend::AttendWindows({job});
  };
  pass({1, width}, attend::Outcome::kKept);
  pass({height, 1}, attend::Outcome::kMerged);
}

}  // namespace fovea::kernels
