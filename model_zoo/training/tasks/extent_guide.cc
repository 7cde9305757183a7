#include "model_zoo/training/tasks/extent_guide.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cmath>

namespace fovea::models::training {

void BlockOutput::Record(std::string_view layer, std::string_view name, const at::Tensor& tensor) {
  if (layer == block_ && name == "output") tokens_ = tensor;
}

const at::Tensor& BlockOutput::tokens() const {
  TORCH_CHECK_VALUE(tokens_.defined(), "the backbone has no block called ", block_,
                    " to guide: set the weight of the guide to 0");
  return tokens_;
}

ExtentGuide::ExtentGuide(int64_t channels)
    : weight_(at::zeros({kCells * kCells, channels}).requires_grad_()),
      bias_(at::zeros({kCells * kCells}).requires_grad_()) {}

at::Tensor ExtentGuide::Loss(const at::Tensor& tokens, const at::Tensor& extent) const {
  const int64_t images = extent.size(0);
  const auto grid = static_cast<int64_t>(std::sqrt(static_cast<double>(tokens.size(1))));
  const int64_t patches = grid * grid;
  const int64_t pixels_per_cell = extent.size(1) / (grid * kCells);
  TORCH_CHECK_VALUE(pixels_per_cell > 0, "a patch of ", extent.size(1) / grid,
                    " pixels is too small to guide");
  const at::Tensor shares =
      at::avg_pool2d(extent.unsqueeze(1).to(at::kFloat).div_(255.0f), pixels_per_cell)
          .view({images, grid, kCells, grid, kCells})
          .permute({0, 1, 3, 2, 4})
          .reshape({images, patches, kCells * kCells});
  const at::Tensor of_patches = tokens.narrow(1, tokens.size(1) - patches, patches);
  const at::Tensor logits = at::linear(of_patches.to(at::kFloat), weight_, bias_);
  return at::binary_cross_entropy_with_logits(logits, shares);
}

}  // namespace fovea::models::training
