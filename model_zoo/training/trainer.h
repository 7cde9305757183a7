// Trains a classifier of the zoo on the generated pictures.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/training/adamw.h"

namespace fovea::models::training {

struct TrainingOptions {
  uint64_t seed = 1;  // of the pictures; the weights come with the backbone
  int epochs = 24;
  int64_t images_per_epoch = 9'600;  // each drawn once: an epoch is a stretch of an endless stream
  int64_t batch_size = 64;
  double peak_learning_rate = 1e-3;
  double warmup_share = 0.02;  // of all steps
  // Of the second task, see ExtentGuide, and the block that it looks at; 0: labels alone.
  double guide_weight = 2.0;
  std::string guide_block = "blocks.2";
  AdamW::Options optimizer;
  double label_smoothing = 0.05;
  double clip_norm = 1.0;
  bool bf16 = false;  // matrix products in bfloat16 (autocast); weights and sums stay FP32
  int drawing_threads = 1;
  int64_t validation_images = 2'400;  // after each epoch; 0: none
};

struct EpochReport {
  int epoch;  // from 1
  double learning_rate;
  double training_loss;      // with label smoothing, without the guide's; mean over the epoch
  double guide_loss;         // mean over the epoch, before its weight
  double training_accuracy;  // while it was learning
  double validation_loss = 0, validation_accuracy = 0;
  double seconds;  // from the start
};

struct StepReport {
  int64_t step, total_steps;  // done so far
  double loss;
};

// Changes the backbone's parameters in place. The same options and starting weights give the same
// numbers, on one machine with one number of threads. Throws c10::Error where the loss stops being
// a number.
void Train(Backbone& backbone, const TrainingOptions& options,
           const std::function<void(const StepReport&)>& on_step,
           const std::function<void(const EpochReport&)>& on_epoch);

}  // namespace fovea::models::training
