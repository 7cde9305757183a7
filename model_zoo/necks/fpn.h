// Feature pyramid network: each map of a backbone with the meaning of the coarser ones.
//   Lin et al., CVPR 2017. Code followed: torchvision 0.26 (feature_pyramid_network.py), whose
//   names these are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model_zoo/layers/conv_block.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/layers/layer_list.h"

namespace fovea::models {

class Fpn final : public Layer {
 public:
  // What is added behind the coarsest map, at half the size of the one before.
  enum class Extra {
    kNone,
    kTwoConvolutions,  // P6 and P7 of RetinaNet, the first of them from the backbone's last map
    kTwoConvolutionsWithoutRelu,  // the same as mmdetection has them: P7 of P6 as it is
    kEverySecond,  // every second place of the coarsest, for the proposals of Mask R-CNN
  };

  // `in`: the channels of each map, finest first. `normed`: with batch norms.
  Fpn(const std::vector<int64_t>& in, int64_t channels, Extra extra, bool normed = false);

  // maps: [N, in[i], height, width], each half as high and wide as the one before, rounded up ->
  // [N, channels, height, width] for each, and the extra ones.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& maps) const;

  // The weights of its convolutions, [out, in, height, width], start uniform up to this bound: a
  // variance of one over the number of inputs (torchvision).
  static double InitBound(at::IntArrayRef weight);

 private:
  class ExtraBlocks;

  const Extra extra_kind_;
  const std::shared_ptr<LayerList<ConvBlock>> inner_;   // 1x1, from the backbone's channels
  const std::shared_ptr<LayerList<ConvBlock>> layers_;  // 3x3, behind the sums
  std::shared_ptr<ExtraBlocks> extra_;                  // null: none
};

}  // namespace fovea::models
