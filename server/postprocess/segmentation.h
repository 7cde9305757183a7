// A segmenter's logits as a class for each pixel of the callers' pictures.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/core/model_catalog.h"
#include "server/postprocess/postprocessor.h"

namespace fovea {

// What a request for tensors finds besides the logits: UINT8 [-1, height, width], UINT16 of more
// than 256 classes, of the callers' pictures.
inline constexpr std::string_view kClassMapOutput = "class_map";
TensorDescription ClassMapTensor(int64_t num_classes);

// The class maps of `model`'s output "logits" (FP32 [-1, classes, height, width], finite).
// FAILED_PRECONDITION model.no_segmenter where it has none.
absl::StatusOr<std::unique_ptr<const TaskPostprocessor>> MakeSegmentation(
    std::shared_ptr<const ModelView> model);

}  // namespace fovea
