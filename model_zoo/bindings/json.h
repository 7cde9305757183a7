// A model's description from JSON, and its facts to JSON: for Python where the server is not built.
#pragma once

#include <string>
#include <string_view>

#include "model_zoo/model.h"

namespace fovea::models {

// {"backbone": str, "attention": str or [str], "num_classes": int, "image_height": int,
//  "image_width": int, "further_sizes": [[height, width]], "precision": "FP32" or "BF16",
//  "random_weights_seed": int, "weights": path, "vit": {"depth", "width", "heads", "patch_size",
//  "mlp_width"}, "task", "head", "detection"}; "backbone" is required. Anything else is a
// c10::ValueError.
ModelDescription DescriptionFromJson(std::string_view text);

// {"backbone", "attention", "image_height", "image_width", "num_classes", "parameters", "tokens",
//  "pixel_input", "preprocessing": {"resize_mode", "interpolation", "crop_fraction", "mean",
//  "std"}, "outputs": [{"name", "shape", "bytes"}], "weight_bytes"}
std::string FactsToJson(const Model& model);

}  // namespace fovea::models
