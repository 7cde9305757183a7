#include "model_zoo/layers/conv2d.h"

#include <ATen/ATen.h>

#include <utility>

#include "kernels/vision/winograd3x3/winograd3x3.h"

namespace fovea::models {
namespace {

// Whether such a layer sees maps that kernels/vision/winograd3x3 takes.
bool RunsWinograd(const Conv2dOptions& options) {
  constexpr std::array<int64_t, 2> kOne = {1, 1}, kThree = {3, 3}, kUnknown = {0, 0};
  constexpr std::array<int64_t, 2> kLarge = {1024, 1024};
  const auto& [height, width] = options.largest_map == kUnknown ? kLarge : options.largest_map;
  return options.kernel == kThree && options.stride == kOne && options.padding == kOne &&
         options.groups == 1 && kernels::Winograd3x3Takes(options.in, options.out, height, width);
}

// Whether such a layer is a linear one over the channels of each position, without more.
bool IsPointwise(const Conv2dOptions& options) {
  constexpr std::array<int64_t, 2> kNone = {0, 0}, kOne = {1, 1};
  return options.kernel == kOne && options.padding == kNone && options.groups == 1;
}

}  // namespace

Conv2dOptions Conv2dOptions::Square(int64_t in, int64_t out, int64_t side, int64_t stride,
                                    int64_t padding) {
  return {.in = in,
          .out = out,
          .kernel = {side, side},
          .stride = {stride, stride},
          .padding = {padding, padding}};
}

Conv2dOptions Conv2dOptions::Groups(int64_t n) const {
  Conv2dOptions options = *this;
  options.groups = n;
  return options;
}

Conv2dOptions Conv2dOptions::NoBias() const {
  Conv2dOptions options = *this;
  options.bias = false;
  return options;
}

Conv2dOptions Conv2dOptions::UpTo(int64_t height, int64_t width) const {
  Conv2dOptions options = *this;
  options.largest_map = {height, width};
  return options;
}

Conv2d::Conv2d(const Conv2dOptions& options)
    : options_(options),
      weight_(AddParameter("weight", {options.out, options.in / options.groups, options.kernel[0],
                                      options.kernel[1]})) {
  if (options.bias) bias_ = AddParameter("bias", {options.out});
}

at::Tensor Conv2d::forward(const at::Tensor& map) const {
  if (pointwise_) {
    const at::Tensor read = map.slice(2, 0, std::nullopt, options_.stride[0])
                                .slice(3, 0, std::nullopt, options_.stride[1]);
    return pointwise_->forward(read.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
  }
  if (winograd_weight_.defined() &&
      kernels::Winograd3x3Takes(options_.in, options_.out, map.size(2), map.size(3))) {
    return kernels::Winograd3x3(
        map, winograd_weight_, bias_.defined() ? std::optional(bias_) : std::nullopt, options_.out);
  }
  // Of a map narrower than the stride, oneDNN's gradient of a bfloat16 weight reads memory that
  // nothing has written (torch 2.11; tests/model_zoo/conv2d_layer_test.cc shows it). The columns
  // that the stride skips are made and left out.
  if (const int64_t step = options_.stride[1]; !prepared() && map.size(3) < step) {
    return at::conv2d(map, weight_, bias_, {options_.stride[0], 1}, options_.padding,
                      /*dilation=*/1, options_.groups)
        .slice(3, 0, std::nullopt, step);
  }
  return at::conv2d(map, weight_, bias_, options_.stride, options_.padding, /*dilation=*/1,
                    options_.groups);
}

void Conv2d::Fold(const at::Tensor& scale, const at::Tensor& shift) {
  TORCH_INTERNAL_ASSERT(!prepared(), "a batch norm is folded before its convolution is prepared");
  const at::NoGradGuard no_grad;
  weight_.mul_(scale.view({-1, 1, 1, 1}));
  if (bias_.defined()) {
    bias_.mul_(scale).add_(shift);
  } else {
    bias_ = AddParameter("bias", {options_.out});
    bias_.copy_(shift);
  }
}

void Conv2d::Prepare(const Placement& placement) {
  if (placement.device.is_cpu() && IsPointwise(options_)) {
    auto linear = std::make_shared<Linear>(weight_, bias_);
    linear->KeepPrecision();  // as all convolutions (model_zoo/README.md)
    linear->Prepare(placement);
    pointwise_ = std::move(linear);
    weight_.reset();
    bias_.reset();
    ReleaseParameters();
    return MarkPrepared(placement);
  }
  Layer::Prepare(placement);
  if (placement.device.is_cpu()) {
    weight_.set_data(weight_.contiguous(at::MemoryFormat::ChannelsLast));
    if (placement.dtype == at::kFloat && RunsWinograd(options_)) {
      winograd_weight_ = kernels::PackWinograd3x3(weight_);
    }
  }
}

int64_t Conv2d::OwnBytes() const {
  if (pointwise_) return shared() ? 0 : pointwise_->WeightBytes();
  const bool packed = winograd_weight_.defined() && !shared();
  return Layer::OwnBytes() + (packed ? static_cast<int64_t>(winograd_weight_.nbytes()) : 0);
}

void Conv2d::ShareWeights(const Layer& loaded) {
  const auto& other = dynamic_cast<const Conv2d&>(loaded);
  weight_ = other.weight_;
  bias_ = other.bias_;
  winograd_weight_ = other.winograd_weight_;
  pointwise_ = other.pointwise_;
  ShareState(loaded);
}

}  // namespace fovea::models
