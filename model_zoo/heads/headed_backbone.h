// A backbone with a head, as one network.
#pragma once

#include <memory>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/heads/head.h"

namespace fovea::models {

// `backbone` is without a classifier (ModelDescription::kNoClasses). Its parameters are named
// "backbone." and their own name, those of the head "head." and their own; in a weight file too.
// Throws c10::ValueError in words where the backbone has no feature maps, or the head cannot stand
// on them.
std::shared_ptr<Backbone> WithHead(std::shared_ptr<Backbone> backbone, const HeadEntry& head,
                                   const ModelDescription& description);

// The head of what WithHead gave, which has to outlive it; null for any other backbone.
const Head* HeadOf(const Backbone& backbone);

}  // namespace fovea::models
