#include "model_zoo/costs/counted_model.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>

#include "base/did_you_mean.h"
#include "model_zoo/costs/operation_counter.h"
#include "model_zoo/registry/heads.h"

namespace fovea::models {

CountedModel ModelOf(const PrintedCosts& row) {
  return {row.backbone, row.attention, row.head, {row.height, row.width}};
}

ModelDescription Describe(const CountedModel& counted) {
  ModelDescription description;
  description.name = std::string(counted.backbone);
  description.backbone = std::string(counted.backbone);
  description.image_height = counted.size.height;
  description.image_width = counted.size.width;
  if (!counted.attention.empty()) description.attention = {std::string(counted.attention)};
  description.random_weights_seed = 1;
  if (counted.head.empty()) return description;
  const auto head = std::ranges::find(Heads(), counted.head, &HeadEntry::name);
  TORCH_CHECK_VALUE(head != Heads().end(), "there is no head '", counted.head, "'",
                    DidYouMean(counted.head, Heads(), &HeadEntry::name));
  description.head = head->name;
  description.task = head->task;
  description.detection.conventions = Conventions::kMmdetection;
  return description;
}

int64_t MultiplyAdds(const Model& model) {
  const ModelInfo& info = model.info();
  const at::Tensor pixels = at::randn({1, 3, info.image_height, info.image_width});
  FullestPass context;
  const OperationCounter counter;
  model.Run(pixels, context);
  return counter.multiply_adds();
}

}  // namespace fovea::models
