// From a description to a model: its backbone with its attention and its head, filled with its
// weights. `heads` are those that can be named.
#pragma once

#include <memory>
#include <span>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/model.h"
#include "model_zoo/model_description.h"
#include "model_zoo/registry/heads.h"

namespace fovea::models {

// Builds the backbone with its attention and fills it with the described weights, in the state
// before Prepare. Throws c10::Error in words when the backbone is unknown, the attention cannot
// stand in it (one of the five reasons of model_zoo/attention/README.md), the file is not valid
// safetensors, or a tensor is missing, unknown, of another shape or not finite.
std::unique_ptr<Model> LoadModel(const ModelDescription& description,
                                 std::span<const HeadEntry> heads = Heads());

// Builds the described backbone in its trainable state, fp32 on the CPU, and fills it: from the
// seed, or from the safetensors file. Throws c10::Error in words, as LoadModel does.
std::shared_ptr<Backbone> LoadBackbone(const ModelDescription& description,
                                       std::span<const HeadEntry> heads = Heads());

}  // namespace fovea::models
