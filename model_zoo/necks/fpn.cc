#include "model_zoo/necks/fpn.h"

#include <ATen/ATen.h>

#include <cmath>

#include "model_zoo/layers/conv2d.h"

namespace fovea::models {

class Fpn::ExtraBlocks final : public Layer {
 public:
  ExtraBlocks(int64_t in, int64_t channels, bool relu)
      : relu_(relu),
        p6_(Add<Conv2d>("p6", Conv2dOptions::Square(in, channels, 3, 2, 1))),
        p7_(Add<Conv2d>("p7", Conv2dOptions::Square(channels, channels, 3, 2, 1))) {}

  void Append(const at::Tensor& last, std::vector<at::Tensor>& maps) const {
    maps.push_back(p6_->forward(last));
    maps.push_back(p7_->forward(relu_ ? maps.back().relu() : maps.back()));
  }

 private:
  const bool relu_;  // between the two
  const std::shared_ptr<Conv2d> p6_;
  const std::shared_ptr<Conv2d> p7_;
};

Fpn::Fpn(const std::vector<int64_t>& in, int64_t channels, Extra extra, bool normed)
    : extra_kind_(extra),
      inner_(Add<LayerList<ConvBlock>>("inner_blocks")),
      layers_(Add<LayerList<ConvBlock>>("layer_blocks")) {
  for (const int64_t each : in) {
    inner_->Emplace(Conv2dOptions::Square(each, channels, 1), normed);
    layers_->Emplace(Conv2dOptions::Square(channels, channels, 3, 1, 1), normed);
  }
  if (extra == Extra::kTwoConvolutions || extra == Extra::kTwoConvolutionsWithoutRelu) {
    extra_ = Add<ExtraBlocks>("extra_blocks", in.back(), channels,
                              /*relu=*/extra == Extra::kTwoConvolutions);
  }
}

double Fpn::InitBound(at::IntArrayRef weight) {
  return std::sqrt(3.0 / static_cast<double>(weight[1] * weight[2] * weight[3]));
}

std::vector<at::Tensor> Fpn::forward(const std::vector<at::Tensor>& maps) const {
  std::vector<at::Tensor> sums(maps.size());
  for (size_t i = maps.size(); i-- > 0;) {
    sums[i] = (*inner_)[i].forward(maps[i]);
    if (i + 1 < maps.size()) {
      sums[i].add_(at::upsample_nearest2d(sums[i + 1], {sums[i].size(2), sums[i].size(3)}));
    }
  }
  std::vector<at::Tensor> pyramid;
  for (size_t i = 0; i < maps.size(); ++i) {
    pyramid.push_back((*layers_)[i].forward(sums[i]));
    sums[i].reset();
  }
  if (extra_) extra_->Append(maps.back(), pyramid);
  if (extra_kind_ == Extra::kEverySecond) {
    pyramid.push_back(pyramid.back().slice(2, 0, std::nullopt, 2).slice(3, 0, std::nullopt, 2));
  }
  return pyramid;
}

}  // namespace fovea::models
