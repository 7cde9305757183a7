// A model's description from JSON, and its facts to JSON: for Python where the server is not built.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model_zoo/model_description.h"

namespace fovea::models {

// {"backbone": str, "attention": str or [str], "num_classes": int, "image_height": int,
//  "image_width": int, "further_sizes": [[height, width]], "precision": "FP32", "BF16", "FP16" or
//  "INT8", "random_weights_seed": int, "weights": path, "vit": {"depth", "width", "heads",
//  "patch_size", "mlp_width"}, "task", "head", "head_channels", "detection"}; "backbone" is
//  required. Anything
// else is a c10::ValueError.
ModelDescription DescriptionFromJson(std::string_view text);

// What DescriptionFromJson reads as `description`; the name of a model is left out.
std::string DescriptionToJson(const ModelDescription& description);

// {"resize_mode", "interpolation", "crop_fraction", "shorter_side", "longer_side", "fast_decode",
// "mean", "std"}, all of them. Anything else is a c10::ValueError.
Preprocessing PreprocessingFromJson(std::string_view text);
std::string PreprocessingToJson(const Preprocessing& preprocessing);

// {"backbone", "attention", "image_height", "image_width", "further_sizes", "num_classes",
//  "parameters", "tokens", "pixel_input", "preprocessing", "outputs": [{"name", "shape", "type"}],
//  "features": [{"channels", "stride"}], "weight_bytes"}
std::string FactsToJson(const ModelInfo& info, int64_t weight_bytes);

}  // namespace fovea::models
