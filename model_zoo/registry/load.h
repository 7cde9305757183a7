// From a description to a model: its backbone with its attention, filled with its weights.
#pragma once

#include <memory>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/model.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// Builds the backbone with its attention and fills it with the described weights, in the state
// before Prepare. Throws c10::Error in words when the backbone is unknown, the attention cannot
// stand in it (one of the five reasons of model_zoo/attention/README.md), the file is not valid
// safetensors, or a tensor is missing, unknown or of another shape.
std::unique_ptr<Model> LoadModel(const ModelDescription& description);

// Builds the described backbone in its trainable state, fp32 on the CPU, and fills it: from the
// seed, or from the safetensors file. Throws c10::Error in words, as LoadModel does.
std::shared_ptr<Backbone> LoadBackbone(const ModelDescription& description);

}  // namespace fovea::models
