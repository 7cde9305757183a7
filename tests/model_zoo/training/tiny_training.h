// A training in little, for tests of the trainer.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "model_zoo/registry/load.h"
#include "model_zoo/training/data/generated/shapes.h"
#include "model_zoo/training/optimisation/initialisation.h"
#include "model_zoo/training/optimisation/trainer.h"
#include "model_zoo/training/tasks/shape_classification_task.h"

namespace fovea::models::training {

struct Tiny {
  Tiny() {
    training.epochs = 3;
    training.steps_per_epoch = 8;
    training.keep_best = false;
    pictures.batch_size = 20;
    pictures.validation_images = 40;
  }
  TrainingOptions training;
  ShapeClassificationOptions pictures;
};

struct Outcome {
  std::shared_ptr<Backbone> backbone;
  std::vector<EpochReport> epochs;
  int64_t steps = 0;

  double Training(int epoch, const char* name) const {
    return ValueOf(epochs.at(epoch).training, name);
  }
  double Validation(int epoch, const char* name) const {
    return ValueOf(epochs.at(epoch).validation, name);
  }
};

inline void TrainOn(Outcome& outcome, const Tiny& options,
                    const CheckpointOptions& checkpoints = {}) {
  const auto task = MakeShapeClassificationTask(*outcome.backbone, options.pictures);
  Train(
      *outcome.backbone, *task, options.training, checkpoints,
      [&](const StepReport& step) { outcome.steps = step.step; },
      [&](const EpochReport& epoch) { outcome.epochs.push_back(epoch); });
}

inline std::shared_ptr<Backbone> Fresh(const std::string& attention = "dense") {
  std::shared_ptr<Backbone> backbone = LoadBackbone({.backbone = "vit_demo_patch8_64",
                                                     .attention = {attention},
                                                     .num_classes = kNumShapes,
                                                     .random_weights_seed = 3});
  InitialiseForSmallData(*backbone);
  return backbone;
}

inline Outcome TrainTiny(const Tiny& options, const std::string& attention = "dense") {
  Outcome outcome{.backbone = Fresh(attention)};
  TrainOn(outcome, options);
  return outcome;
}

inline bool SameParameters(const Backbone& a, const Backbone& b) {
  const auto left = a.parameters(), right = b.parameters();
  for (size_t i = 0; i < left.size(); ++i) {
    if (!at::equal(left[i], right[i])) return false;
  }
  return left.size() == right.size();
}

}  // namespace fovea::models::training
