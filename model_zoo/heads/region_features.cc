#include "model_zoo/heads/region_features.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "kernels/vision/roi_align/op.h"

namespace fovea::models {

at::Tensor LevelsOf(const at::Tensor& boxes, std::span<const int64_t> strides) {
  constexpr double kCanonicalSide = 224, kCanonicalLevel = 4, kEpsilon = 1e-6;
  const double first = std::round(std::log2(static_cast<double>(strides.front())));
  const at::Tensor sides = (boxes.slice(1, 2) - boxes.slice(1, 0, 2)).clamp_min(0);
  const at::Tensor side = sides.prod(1).sqrt();
  const at::Tensor level = (kCanonicalLevel + (side / kCanonicalSide).log2() + kEpsilon).floor();
  // A box without area goes to the finest one, one that is no number to none.
  return (level - first)
      .clamp(0, static_cast<double>(strides.size()) - 1)
      .nan_to_num(-1)
      .to(at::kLong);
}

at::Tensor RegionFeatures(const std::vector<at::Tensor>& pyramid, std::span<const int64_t> strides,
                          const std::vector<at::Tensor>& boxes, int64_t side,
                          Conventions conventions) {
  const bool torchvision = conventions == Conventions::kTorchvision;
  std::vector<at::Tensor> of_images;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const at::Tensor image =
        at::full({boxes[i].size(0), 1}, static_cast<double>(i), boxes[i].options());
    of_images.push_back(at::cat({image, boxes[i]}, 1));
  }
  const at::Tensor regions = at::cat(of_images);  // [K, 5]
  const at::Tensor levels = LevelsOf(regions.slice(1, 1), strides);
  at::Tensor features =
      at::empty({regions.size(0), pyramid[0].size(1), side, side}, pyramid[0].options());
  // Level by level, those on none first. How many are of each is all that is asked of the device.
  const at::Tensor order = levels.argsort();
  const at::Tensor bounds =
      at::arange(static_cast<int64_t>(strides.size()) + 1, levels.options()).unsqueeze(1);
  const at::Tensor before = (levels < bounds).sum(1).to(at::kCPU);
  const auto of = [&](int64_t first, int64_t end) { return order.slice(0, first, end); };
  for (size_t level = 0; level < strides.size(); ++level) {
    const auto number = static_cast<int64_t>(level);
    const at::Tensor index = of(before[number].item<int64_t>(), before[number + 1].item<int64_t>());
    if (index.size(0) == 0) continue;
    features.index_copy_(
        0, index,
        kernels::RoiAlign(pyramid[level], regions.index_select(0, index),
                          1.0 / static_cast<double>(strides[level]), side, side,
                          /*sampling=*/torchvision ? 2 : 0, /*aligned=*/!torchvision)
            .contiguous());
  }
  // A box that is no number is on no map.
  features.masked_fill_(regions.isnan().any(1).view({-1, 1, 1, 1}),
                        std::numeric_limits<double>::quiet_NaN());
  return features;
}

}  // namespace fovea::models
