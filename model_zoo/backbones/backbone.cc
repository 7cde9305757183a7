#include "model_zoo/backbones/backbone.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "model_zoo/weights/random.h"

namespace fovea::models {

std::vector<at::Tensor> Backbone::Features(const at::Tensor& /*pixels*/,
                                           ForwardContext& /*context*/) const {
  C10_THROW_ERROR(ValueError, info().backbone + " has no feature maps");
}

void Backbone::Initialise(uint64_t seed) {
  for (const auto& parameter : named_parameters()) {
    InitialiseAsUsual(parameter.key(), parameter.value(), seed);
  }
  for (const auto& buffer : named_buffers()) {
    InitialiseAsUsual(buffer.key(), buffer.value(), seed);
  }
}

void Backbone::InitialiseAsUsual(const std::string& name, const at::Tensor& tensor, uint64_t seed) {
  const RandomStream random(seed, name);
  if (tensor.dim() == 4 && name.ends_with("weight")) {
    // Of an input: depth-wise, one.
    const int64_t outputs = tensor.size(1) == 1 ? 1 : tensor.size(0);
    const auto fan_out = static_cast<double>(outputs * tensor.size(2) * tensor.size(3));
    random.FillNormal(tensor, std::sqrt(2 / fan_out));
  } else if (tensor.dim() == 3 && (name.ends_with(".k") || name.ends_with(".cls_k"))) {
    random.FillNormal(tensor, 1);
  } else if (tensor.dim() > 1) {
    random.FillNormal(tensor, 0.02);
  } else {
    const bool factor =
        name.ends_with("weight") || name.ends_with("running_var") || name.ends_with(".scale");
    Fill(tensor, factor ? 1 : 0);
  }
}

ModelInfo DescribeClassifier(const ModelDescription& description, const PublishedInput& published,
                             int64_t channels) {
  ModelInfo info;
  info.backbone = description.backbone;
  info.image_height = description.image_height > 0 ? description.image_height : published.side;
  info.image_width = description.image_width > 0 ? description.image_width : published.side;
  info.preprocessing = published.preprocessing;
  info.num_classes = description.num_classes == 0
                         ? published.num_classes
                         : std::max<int64_t>(description.num_classes, 0);  // kNoClasses
  if (info.num_classes > 0) {
    info.outputs = {{"logits", {info.num_classes}}};
  } else {
    info.outputs = {{"features", {channels}}};
  }
  return info;
}

void CheckDivides(const ModelInfo& info, int64_t stride) {
  TORCH_CHECK_VALUE(info.image_height % stride == 0 && info.image_width % stride == 0,
                    info.backbone, " cuts images into patches of ", stride, " pixels, which ",
                    info.image_height, "x", info.image_width, " does not divide into");
}

}  // namespace fovea::models
