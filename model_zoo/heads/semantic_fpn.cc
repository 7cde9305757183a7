// SemanticFPN: each map of a feature pyramid brought to the finest one's size step by step, and
// their sum classified.
//   Kirillov et al., CVPR 2019, section 3 and figure 3; used by LinGlo (Rethinking Query-Key
//   Pairwise Interactions, section 4.3) as mmsegmentation 1 has it (fpn_r50: FPNHead behind an FPN
//   of 256 channels), with batch norms where the first paper has group norms. Names: "fpn"
//   torchvision's, the others mmsegmentation's below "decode_head.".
#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model_zoo/heads/register.h"
#include "model_zoo/heads/segmentation.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/normed_conv2d.h"
#include "model_zoo/necks/fpn.h"

namespace fovea::models {
namespace {

constexpr char kName[] = "semantic_fpn";
constexpr int64_t kPublishedChannels = 256;  // of the pyramid; behind it there are half as many

int64_t PyramidWidth(const HeadSite& site) {
  const int64_t width = WidthOf(site, kPublishedChannels);
  TORCH_CHECK_VALUE(width % 2 == 0, "the head '", kName,
                    "' goes on with half of its pyramid's channels: their number is even, not ",
                    width);
  return width;
}

at::Tensor Interpolated(const at::Tensor& map, int64_t height, int64_t width) {
  return at::upsample_bilinear2d(map, {height, width}, /*align_corners=*/false);
}

// Convolutions with batch norms and ReLUs, and behind each a doubling of the size where there is
// one to do. In mmsegmentation a doubling has a number of its own.
class ScaleHead final : public Layer {
 public:
  // `pyramid`: channels of the map, of which half come out. `doublings`: from the map's stride to
  // the finest one's.
  ScaleHead(int64_t pyramid, int64_t doublings) : doubles_(doublings > 0) {
    const int64_t out = pyramid / 2;
    for (int64_t i = 0; i < std::max<int64_t>(1, doublings); ++i) {
      convolutions_.push_back(
          Add<NormedConv2d>(std::to_string(doubles_ ? 2 * i : i), "conv", "bn",
                            Conv2dOptions::Square(i == 0 ? pyramid : out, out, 3, 1, 1).NoBias()));
    }
  }

  at::Tensor forward(at::Tensor map) const {
    for (const auto& convolution : convolutions_) {
      map = convolution->forward(map).relu();
      if (doubles_) map = Interpolated(map, 2 * map.size(2), 2 * map.size(3));
    }
    return map;
  }

 private:
  const bool doubles_;
  std::vector<std::shared_ptr<NormedConv2d>> convolutions_;
};

class SemanticFpn final : public Head {
 public:
  explicit SemanticFpn(const HeadSite& site)
      : num_classes_(SegmentationClasses(site, kName)),
        fpn_(Add<Fpn>("fpn", ChannelsOf(site.backbone.features), PyramidWidth(site),
                      Fpn::Extra::kNone)),
        scales_(Add<LayerList<ScaleHead>>("scale_heads")),
        classifier_(Add<Conv2d>("conv_seg",
                                Conv2dOptions::Square(PyramidWidth(site) / 2, num_classes_, 1))) {
    const auto& maps = site.backbone.features;
    for (size_t i = 0; i < maps.size(); ++i) {
      int64_t doublings = 0;
      while (maps[0].stride << (doublings + 1) <= maps[i].stride) ++doublings;
      scales_->Emplace(PyramidWidth(site), doublings);
    }
  }

  std::vector<ModelInfo::Output> outputs() const override {
    return SegmentationOutputs(num_classes_);
  }
  int64_t num_classes() const override { return num_classes_; }

  // The classifier as in mmsegmentation.
  std::optional<ParameterInit> InitOf(const std::string& parameter,
                                      at::IntArrayRef shape) const override {
    if (parameter == "conv_seg.weight") return ParameterInit{ParameterInit::Kind::kNormal, 0.01};
    if (shape.size() == 4 && parameter.starts_with("fpn.")) {
      return ParameterInit{ParameterInit::Kind::kUniform, Fpn::InitBound(shape)};
    }
    return std::nullopt;
  }

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& maps,
                                  ForwardContext& context) const override {
    const std::vector<at::Tensor> pyramid = fpn_->forward(maps);
    if (context.ShouldStop()) return {};
    at::Tensor sum = (*scales_)[0].forward(pyramid[0]);
    for (size_t i = 1; i < pyramid.size(); ++i) {
      if (context.ShouldStop()) return {};
      sum = sum + Interpolated((*scales_)[i].forward(pyramid[i]), sum.size(2), sum.size(3));
    }
    context.Record("head", "sum", sum);
    return {classifier_->forward(sum)};
  }

 private:
  const int64_t num_classes_;
  const std::shared_ptr<Fpn> fpn_;
  const std::shared_ptr<LayerList<ScaleHead>> scales_;  // of each map
  const std::shared_ptr<Conv2d> classifier_;
};

}  // namespace

HeadEntry SemanticFpnEntry() {
  return {"semantic_fpn", "a class at every place, of the sum of a feature pyramid",
          Task::kSegmentation,
          [](const HeadSite& site) { return std::make_shared<SemanticFpn>(site); }};
}

}  // namespace fovea::models
