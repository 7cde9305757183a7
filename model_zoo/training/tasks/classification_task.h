// Learns the class of whole pictures, from a source of samples.
#pragma once

#include <memory>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/training/tasks/sample_batches.h"
#include "model_zoo/training/tasks/training_task.h"

namespace fovea::models::training {

struct ClassificationTrainingOptions {
  SampleBatchOptions samples;
  double label_smoothing = 0.05;
  bool bf16 = false;
};

// Measures training_loss (with label smoothing), training_accuracy; validation_accuracy, by
// which epochs are compared. `backbone` has to outlive it. Throws c10::ValueError where the model
// tells another number of classes apart.
std::unique_ptr<TrainingTask> MakeClassificationTask(Backbone& backbone, SampleSources sources,
                                                     const ClassificationTrainingOptions& options);

}  // namespace fovea::models::training
