// Trains a model of the zoo on whatever its task gives it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/training/optimisation/adamw.h"
#include "model_zoo/training/tasks/training_task.h"

namespace fovea::models::training {

class CheckpointFolder;

struct TrainingOptions {
  int epochs = 24;
  int64_t steps_per_epoch = 150;
  double peak_learning_rate = 1e-3;
  double warmup_share = 0.02;  // of all steps
  AdamW::Options optimizer;
  double clip_norm = 1.0;
  // Ends with the weights of the epoch whose validation was the best, not with the last ones.
  bool keep_best = true;
  bool validates = true;  // after each epoch
  int patience = 0;       // ends after so many epochs that were no better than the best; 0: never
};

struct EpochReport {
  int epoch = 0;  // from 1
  double learning_rate = 0;
  std::vector<Measure> training;  // means over the epoch, while it was learning
  std::vector<Measure> validation;
  double score = 0;    // Validation::score
  double seconds = 0;  // from the start
};

struct StepReport {
  int64_t step, total_steps;  // done so far
  double loss;
};

// Where a training is kept, so that one that was killed can go on.
struct CheckpointOptions {
  const CheckpointFolder* folder = nullptr;  // null: nowhere; outlives Train
  // Between two of them, besides the one after each epoch. Less costs time, more is lost by a kill.
  double minutes = 5;
  // Goes on with what the folder holds; starts afresh where it holds nothing.
  bool resume = false;
};

// Changes the backbone's parameters and buffers in place. The same options, task and starting
// weights give the same numbers, on one machine with one number of threads, however often the
// training was broken off and went on. A training that goes on reports the epochs of before again.
// Throws c10::Error where the loss or a gradient is not finite, and c10::ValueError where a
// checkpoint is of another training.
void Train(Backbone& backbone, TrainingTask& task, const TrainingOptions& options,
           const CheckpointOptions& checkpoints,
           const std::function<void(const StepReport&)>& on_step,
           const std::function<void(const EpochReport&)>& on_epoch);

}  // namespace fovea::models::training
