#include "model_zoo/heads/roi_heads.h"

#include <ATen/ATen.h>

#include <string>

#include "model_zoo/layers/layer_list.h"

namespace fovea::models {

RoiHeads::RoiHeads(const Shape& shape, Conventions conventions) {
  const auto add = [&]<typename Child>(std::vector<std::shared_ptr<Child>>& stages,
                                       const std::string& name, const auto&... arguments) {
    if (shape.stages == 1) {
      stages = {Add<Child>(name, arguments...)};
      return;
    }
    const auto list = Add<LayerList<Child>>(name);
    for (size_t i = 0; i < shape.stages; ++i) list->Emplace(arguments...);
    stages = list->list();
  };
  add(box_heads_, "box_head", shape.channels, conventions);
  add(box_predictors_, "box_predictor", BoxHead::Width(shape.channels), shape.scores, shape.boxes);
  add(mask_heads_, "mask_head", shape.channels, conventions);
  add(mask_predictors_, "mask_predictor", shape.channels, shape.masks);
}

RoiHeads::Boxes RoiHeads::PredictBoxes(size_t stage, const at::Tensor& regions) const {
  const at::Tensor vectors = box_heads_.at(stage)->forward(regions);
  return {box_predictors_.at(stage)->Logits(vectors), box_predictors_.at(stage)->Deltas(vectors)};
}

at::Tensor RoiHeads::PredictMasks(size_t stage, const at::Tensor& regions,
                                  const at::Tensor& labels) const {
  return mask_predictors_.at(stage)->forward(mask_heads_.at(stage)->forward(regions), labels);
}

}  // namespace fovea::models
