#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model_zoo/model.h"

namespace fovea::models {

// Loads, prepares on the input's device in the described precision, and runs once. Keeps nothing.
std::vector<at::Tensor> LoadAndRun(const ModelDescription& description, const at::Tensor& input);

}  // namespace fovea::models
