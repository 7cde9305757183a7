// RP-CPE on the CPU, outermost: tensors into raw memory, rows and planes over threads.
// cpu_channels_last.cc and cpu_planes.cc have the algorithms.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "kernels/vision/rp_cpe/cpu_convolve.h"
#include "kernels/vision/rp_cpe/implementations.h"

namespace fovea::kernels {
namespace {

using rp_cpe::Branches;
using rp_cpe::Job;
using rp_cpe::kFactors;
using rp_cpe::Map;

// Outputs that keep a thread busy for longer than it takes to start.
constexpr int64_t kOutputsPerThread = int64_t{1} << 14;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

Map MapOf(const at::Tensor& t) {
  // Not mutable_data_ptr: x is only read, and may be shared copy-on-write.
  return {const_cast<void*>(t.const_data_ptr()), t.stride(0), t.stride(1), t.stride(2),
          t.stride(3)};
}

// `weights` and `biases` contiguous.
Job JobOf(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases, bool gelu,
          const at::Tensor& output) {
  Job job{};
  job.gelu = gelu;
  job.bf16 = x.scalar_type() == at::kBFloat16;
  job.x = MapOf(x);
  job.y = MapOf(output);
  job.weights = {weights.const_data_ptr(), weights.scalar_type() == at::kBFloat16};
  job.biases = {biases.const_data_ptr(), biases.scalar_type() == at::kBFloat16};
  job.branches = weights.size(0);
  job.channels = x.size(1);
  job.height = x.size(2);
  job.width = x.size(3);
  return job;
}

// Groups narrow enough that three rows stay in the second-level cache, and enough of them that few
// rows still share out evenly; two blocks at least, so that the overlapping blocks have one thread.
int64_t GroupsOf(const Job& job, int64_t batch, int64_t blocks) {
  constexpr int64_t kThreeRowsBytes = 384 << 10;
  const int64_t three_rows = 3 * job.width * job.channels * (job.bf16 ? 2 : 4);
  const int64_t for_cache = DivideUp(three_rows, kThreeRowsBytes);
  const int64_t for_threads = DivideUp(4 * at::get_num_threads(), batch * job.height);
  return std::clamp<int64_t>(std::max(for_cache, for_threads), 1, std::max<int64_t>(1, blocks / 2));
}

void ConvolveChannelsLast(Job job, int64_t batch, const at::TensorOptions& fp32) {
  const int64_t block = rp_cpe::BlockChannels(job.bf16);
  const int64_t blocks = DivideUp(job.channels, block);
  const at::Tensor merged = at::empty({blocks * kFactors * block}, fp32);
  job.merged = merged.mutable_data_ptr<float>();
  job.groups = GroupsOf(job, batch, blocks);
  const int64_t block_cost = block * job.branches;
  at::parallel_for(0, blocks, DivideUp(kOutputsPerThread, block_cost),
                   [&](int64_t begin, int64_t end) { rp_cpe::MergeBlocks(job, begin, end); });
  const int64_t row_cost = job.width * job.channels / job.groups;
  at::parallel_for(0, batch * job.groups * job.height, DivideUp(kOutputsPerThread, row_cost),
                   [&](int64_t begin, int64_t end) { rp_cpe::ConvolveRows(job, begin, end); });
}

void ConvolveChannelsFirst(Job job, int64_t batch, const at::TensorOptions& fp32) {
  const at::Tensor merged = at::empty({job.channels * kFactors}, fp32);
  job.merged = merged.mutable_data_ptr<float>();
  rp_cpe::MergeChannels(job, 0, job.channels);
  // parallel_for does this too, and may so change the number of threads: it must not do it between
  // here and there.
  at::internal::lazy_init_num_threads();
  const int64_t floats = DivideUp(rp_cpe::PlaneScratchFloats(job), 16) * 16;  // whole cache lines
  const at::Tensor scratch = at::empty({at::get_num_threads(), floats}, fp32);
  float* const memory = scratch.mutable_data_ptr<float>();
  at::parallel_for(0, batch * job.channels, DivideUp(kOutputsPerThread, job.height * job.width),
                   [&](int64_t begin, int64_t end) {
                     float* const own = memory + at::get_thread_num() * floats;
                     rp_cpe::ConvolvePlanes(job, own, begin, end);
                   });
}

}  // namespace

void RpCpeCpu(const RpCpeInputs& in, const at::Tensor& output) {
  const at::Tensor weights = in.weights.contiguous();
  const at::Tensor biases = in.biases.contiguous();
  const at::TensorOptions fp32 = output.options().dtype(at::kFloat);
  const int64_t batch = in.x.size(0);
  const bool bf16 = in.x.scalar_type() == at::kBFloat16;
  if (in.x.stride(1) == 1 && output.stride(1) == 1 && in.x.size(1) >= rp_cpe::BlockChannels(bf16)) {
    ConvolveChannelsLast(JobOf(in.x, weights, biases, in.gelu, output), batch, fp32);
    return;
  }
  // Too few channels for a vector, and other layouts, go by planes.
  const at::Tensor x = in.x.stride(3) == 1 ? in.x : in.x.contiguous();
  const at::Tensor planes =
      output.is_contiguous() ? output : at::empty(in.x.sizes(), in.x.options());
  ConvolveChannelsFirst(JobOf(x, weights, biases, in.gelu, planes), batch, fp32);
  if (!planes.is_same(output)) output.copy_(planes);
}

}  // namespace fovea::kernels
