// What tests need that try every backbone with every attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone.h"

namespace fovea::models {

// Every attention of the registry, with the options that change what it computes.
const std::vector<std::string>& TriedAttentions();

// Numbers with which every part of a model shows in its logits: by the usual start attention is
// nearly uniform, and what it adds nearly nothing.
void Enliven(Backbone& backbone, const std::string& attention);

// Standard normal, in the shape of `like`.
at::Tensor Noise(const at::Tensor& like, uint64_t seed);

// The largest difference, by the spread of what is expected.
double Distance(const at::Tensor& actual, const at::Tensor& expected);

}  // namespace fovea::models
