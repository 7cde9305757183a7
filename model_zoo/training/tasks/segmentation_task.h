// Learns the class of each pixel.
#pragma once

#include <memory>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/training/tasks/sample_batches.h"
#include "model_zoo/training/tasks/training_task.h"

namespace fovea::models::training {

struct SegmentationTrainingOptions {
  SampleBatchOptions samples;
  bool bf16 = false;
};

// Of a backbone with a segmenter behind it. Measures training_loss, training_accuracy (of pixels);
// validation_miou, the mean over the classes that were there or were found of intersection over
// union, at the size of the model's input; epochs are compared by it. `backbone` has to outlive it.
// Throws c10::ValueError where the model tells another number of classes apart.
std::unique_ptr<TrainingTask> MakeSegmentationTask(Backbone& backbone, SampleSources sources,
                                                   const SegmentationTrainingOptions& options);

}  // namespace fovea::models::training
