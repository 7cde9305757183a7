// Region proposals: where objects may be, whatever they are; the first of two stages.
//   Ren et al., NIPS 2015. Code followed: torchvision 0.26 (rpn.py), whose names these are; under
//   MMDETECTION mask_rcnn_r50_fpn of mmdetection 3: one convolution, anchors that are not rounded,
//   steps that double from map to map.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model_zoo/heads/anchors.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/conv_block.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

class RegionProposals final : public Layer {
 public:
  // `strides`: of each map of the pyramid, in pixels of the input.
  RegionProposals(int64_t channels, const ImageSize& input, std::vector<int64_t> strides,
                  Conventions conventions);

  struct Scores {
    at::Tensor objectness;  // logits [N, anchors], by place, row by row, then anchor
    at::Tensor deltas;      // [N, 4 * anchors]
  };
  // Of one map [N, channels, height, width].
  Scores Score(const at::Tensor& map) const;

  // pyramid: a map for each stride. contents: of each image, the part of the input that shows the
  // picture. Returns for each image FP32 [M, 4], x1, y1, x2, y2 in pixels of the input, the best
  // first; at most 1000.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& pyramid,
                                  std::span<const ImageSize> contents) const;

  // The same from the scores of each map.
  std::vector<at::Tensor> Propose(const std::vector<at::Tensor>& pyramid,
                                  const std::vector<Scores>& scores,
                                  std::span<const ImageSize> contents) const;

  // FP32 [anchors, 4]: those of all maps, in the order of their scores.
  at::Tensor AllAnchors(const std::vector<at::Tensor>& pyramid) const;

  void Prepare(const Placement& placement) override;

 private:
  // torchvision's rpn.head.
  class RpnHead;

  // Of one image: clipped, without those that are no boxes, suppressed map by map.
  at::Tensor Select(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& levels,
                    const ImageSize& content) const;
  Anchors AnchorsOf(size_t level, const at::Tensor& map) const;

  const ImageSize input_;
  const std::vector<int64_t> strides_;
  const Conventions conventions_;
  const std::shared_ptr<RpnHead> head_;
  std::vector<at::Tensor> anchor_shapes_;  // of each map
};

}  // namespace fovea::models
