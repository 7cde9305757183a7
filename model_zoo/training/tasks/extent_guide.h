// A second task during training, which makes the first one a matter of minutes: each token of a
// middle block tells where in its patch the shape lies. Figure and ground are what a transformer
// finds hardest to learn from labels alone (deep supervision: Lee et al., "Deeply-supervised nets",
// AISTATS 2015). Its weights are not part of the model.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "model_zoo/forward_context.h"

namespace fovea::models::training {

// Keeps what one block gives, of the forward pass that it is handed to.
class BlockOutput final : public ForwardContext {
 public:
  explicit BlockOutput(std::string block) : block_(std::move(block)) {}

  bool Recording() const override { return true; }
  void Record(std::string_view layer, std::string_view name, const at::Tensor& tensor) override;

  // [N, tokens, channels], with its gradient. Throws c10::Error where the model has no such block.
  const at::Tensor& tokens() const;

 private:
  const std::string block_;
  at::Tensor tokens_;
};

class ExtentGuide {
 public:
  explicit ExtentGuide(int64_t channels);

  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; }

  // The mean binary cross-entropy of kCells x kCells cells a patch. tokens [N, prefix + patches,
  // channels] of a square grid of patches, row by row; extent UINT8 [N, side, side], 255 where a
  // pixel is all shape.
  at::Tensor Loss(const at::Tensor& tokens, const at::Tensor& extent) const;

 private:
  static constexpr int64_t kCells = 4;  // a side of a patch

  at::Tensor weight_;  // [kCells * kCells, channels]
  at::Tensor bias_;
};

}  // namespace fovea::models::training
