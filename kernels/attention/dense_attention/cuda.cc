// Dense attention on CUDA: by the kernel of cuda.cu or by torch's scaled_dot_product_attention,
// whichever was measured to be faster on this GPU.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Sleep.h>
#include <ATen/native/transformers/cuda/sdp_utils.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/choice/choice.h"
#include "kernels/choice/questions.h"

namespace fovea::kernels {
namespace {

// What `run` takes the device, without what launching takes the host: the device is kept busy until
// all is queued.
double SecondsOnTheDevice(const std::function<void()>& run) {
  constexpr int64_t kCyclesToQueue = 1'000'000;  // some half a millisecond
  constexpr int kCalls = 10;
  at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
  at::cuda::sleep(kCyclesToQueue);
  start.record();
  for (int i = 0; i < kCalls; ++i) run();
  end.record();
  end.synchronize();
  return start.elapsed_time(end) / 1e3 / kCalls;
}

uint64_t RoundedUp(int64_t size) { return std::bit_ceil(static_cast<uint64_t>(size)); }

// One for sizes that are alike: head dimension, tokens, and heads of all images together, of which
// a batch of one leaves most of the device idle.
std::string QuestionOf(const DenseAttentionInputs& in) {
  return c10::str("dense_attention_", TypeName(in.query.scalar_type()), "_d",
                  RoundedUp(in.query.size(3)), "_n", RoundedUp(in.key.size(2)), "_h",
                  RoundedUp(in.query.size(0) * in.query.size(1)));
}

// As the kernel leaves it: `made` itself, where it lies alike.
at::Tensor LaidOutAs(const at::Tensor& output, const at::Tensor& made) {
  if (made.strides() == output.strides()) return made;
  return output.copy_(made);
}

struct Way {
  std::string_view name;
  std::function<at::Tensor()> run;
};

// The first is ours.
std::vector<Way> WaysOf(const DenseAttentionInputs& in, const at::Tensor& output) {
  std::vector<Way> ways = {{"kernel", [&] {
                              DenseAttentionKernel(in, output);
                              return output;
                            }}};
  // In fp32 torch has no flash kernel. With a bias its backends differ in rows that are masked
  // whole.
  if (in.bias || in.query.scalar_type() == at::kFloat) return ways;
  ways.push_back({"sdpa", [&] {
                    return LaidOutAs(output, at::scaled_dot_product_attention(
                                                 in.query, in.key, in.value, /*attn_mask=*/{},
                                                 /*dropout_p=*/0.0, /*is_causal=*/false, in.scale));
                  }});
  const sdp::sdp_params params = {in.query, in.key, in.value, std::nullopt, 0.0, false, false};
  if (sdp::can_use_cudnn_attention(params, /*debug=*/false)) {
    ways.push_back({"cudnn", [&] {
                      return LaidOutAs(
                          output, std::get<0>(at::_scaled_dot_product_cudnn_attention(
                                      in.query, in.key, in.value, /*attn_bias=*/{},
                                      /*compute_log_sumexp=*/false, /*dropout_p=*/0.0,
                                      /*is_causal=*/false, /*return_debug_mask=*/false, in.scale)));
                    }});
  }
  return ways;
}

}  // namespace

at::Tensor DenseAttentionCuda(const DenseAttentionInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.query.device());
  const std::vector<Way> ways = WaysOf(in, output);
  if (ways.size() == 1 || ForcedImplementation()) return ways.front().run();
  std::vector<Candidate> candidates;
  for (const Way& way : ways) candidates.push_back({way.name, [&way] { way.run(); }});
  ChoiceOptions options = ChoiceOptionsFor(in.query.device());
  options.seconds = SecondsOnTheDevice;
  return ways[Fastest(QuestionOf(in), candidates, options)].run();
}

}  // namespace fovea::kernels
