// Learns to classify the generated pictures.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/training/tasks/training_task.h"

namespace fovea::models::training {

struct ShapeClassificationOptions {
  uint64_t seed = 1;  // of the pictures; the weights come with the backbone
  int64_t batch_size = 64;
  // Of the second task, see ExtentGuide, and the block that it looks at; 0: labels alone.
  double guide_weight = 2.0;
  std::string guide_block = "blocks.2";
  double label_smoothing = 0.05;
  bool bf16 = false;  // matrix products in bfloat16 (autocast); weights and sums stay FP32
  int drawing_threads = 1;
  int64_t validation_images = 2'400;
};

// Measures training_loss (with label smoothing, without the guide's), guide_loss (before its
// weight), training_accuracy; validation_loss, validation_accuracy, by the last of which epochs are
// compared. Each picture is drawn once: an epoch is a stretch of an endless stream. `backbone` has
// to outlive it. Throws c10::ValueError where the backbone tells other classes apart, or has no
// such block.
std::unique_ptr<TrainingTask> MakeShapeClassificationTask(
    Backbone& backbone, const ShapeClassificationOptions& options);

}  // namespace fovea::models::training
