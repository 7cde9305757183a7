// Logits to classes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/request.h"
#include "server/postprocess/postprocessor.h"

namespace fovea {

// The classes of `model`'s output "logits" (FP32 [-1, classes]). FAILED_PRECONDITION
// model.no_classifier where it has none.
absl::StatusOr<std::unique_ptr<const TaskPostprocessor>> MakeClassification(
    std::shared_ptr<const ModelView> model);

// The `count` largest logits of one image, best first, with confidences: softmax's over all
// classes, or each logit's sigmoid. Ties go to the lower index. `logits` [classes], finite.
// `labels` is by class index, or empty. Fewer classes than `count`: all of them.
std::vector<ClassScore> TopClasses(std::span<const float> logits, int count,
                                   std::span<const std::string> labels, bool sigmoid = false);

// Indices of the `count` largest values, best first; ties go to the lower index.
std::vector<int> LargestIndices(std::span<const float> values, size_t count);

}  // namespace fovea
