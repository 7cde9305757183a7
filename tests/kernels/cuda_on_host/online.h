// Runs jobs of shared/cuda_online.h, and what tests of them have in common.
#pragma once
#include "tests/kernels/cuda_on_host/launch.h"
// Above: before the kernels' headers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

#include "kernels/attention/shared/cuda_online.h"

namespace fovea::kernels::cuda_on_host {

// As cuda_online_launch.h launches it.
template <class T, class Job>
void RunOnline(const Job& job) {
  cuda::ForDepth(job.size.dim, [&](auto depth) {
    constexpr int kDepth = decltype(depth)::value;
    const cuda::TileLayout<T, Job, kDepth> layout(job.size);
    Launch(
        KernelName("OnlineKernel", TypeName<T>(), TypeName<Job>(), kDepth),
        {job.Blocks(layout.rows) * layout.chunks, layout.Threads(), layout.end},
        [&](auto* shared) { cuda::OnlineBlock<T, Job, kDepth>(job, shared).Run(); }, job);
  });
}

// Calls run(T{}) with the C++ type of fp32, bf16 or fp16 tensors.
template <class Run>
void ForType(at::ScalarType type, const Run& run) {
  if (type == at::kFloat) return run(float{});
  if (type == at::kBFloat16) return run(c10::BFloat16{});
  run(c10::Half{});
}

inline constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

// What a kernel is to overwrite: numbers that nothing computes.
inline at::Tensor OutputLike(const at::Tensor& query) {
  return at::full(query.sizes(), 777.0, query.options());
}

// Compares with a definition that was computed in fp64 from the same inputs: NaN where it is NaN,
// elsewhere within what rounding the weights and the result to the type, or sums in fp32, may cost.
inline void ExpectNear(const at::Tensor& output, const at::Tensor& expected) {
  const double unit = output.scalar_type() == at::kFloat      ? 0x1p-19
                      : output.scalar_type() == at::kBFloat16 ? 0x1p-8
                                                              : 0x1p-11;
  const at::Tensor got = output.to(at::kDouble);
  const at::Tensor nan = expected.isnan();
  ASSERT_TRUE(got.isnan().equal(nan)) << (got.isnan() != nan).nonzero();
  const at::Tensor truth = expected.masked_fill(nan, 0.0);
  const double scale = truth.abs().max().item<double>();
  const double error = (got.masked_fill(nan, 0.0) - truth).abs().max().item<double>();
  EXPECT_LE(error, 2 * unit * scale + 1e-30);
}

inline std::optional<at::Tensor> InFp64(const std::optional<at::Tensor>& t) {
  return t ? std::optional(t->to(at::kDouble)) : std::nullopt;
}

}  // namespace fovea::kernels::cuda_on_host
