// The command line of fovea-train.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_zoo/training/comparison/comparison.h"
#include "model_zoo/training/optimisation/trainer.h"
#include "model_zoo/training/tasks/detection_task.h"
#include "model_zoo/training/tasks/shape_classification_task.h"

namespace fovea::models::training {

struct Arguments {
  // One of these, or of the next two.
  std::string out, evaluate, examples, contact_sheet, write_scenes, write_shapes;
  std::vector<std::string> compare;
  bool linear_baseline = false;

  // What is learned: generated pictures of one shape, generated scenes, or what lies in `data`.
  std::string task, data, images;
  bool scenes = false;
  // The model. What is not given is as of the one to start from, or the task's usual.
  std::string from, backbone, attention, head;
  std::optional<std::string> conventions;
  std::optional<int64_t> head_channels, detections_per_image;
  std::optional<double> score_threshold, nms_iou;
  int64_t image_size = 0;
  // The training. What is not given: training_defaults.h.
  std::optional<int> epochs;
  std::optional<int64_t> images_per_epoch, batch_size, validation_images;
  std::optional<double> learning_rate;
  TrainingOptions training;
  double label_smoothing = 0.05;  // of classifiers
  ShapeClassificationOptions shapes;
  std::string box_loss = "giou";
  AugmentationOptions augmentation;
  uint64_t seed = 1;
  std::string keep = "best";
  int loading_threads = 1;
  // How it goes and where it is kept.
  std::string checkpoints;
  double checkpoint_minutes = 5;
  bool resume = false, overwrite = false;
  std::string stored = "F16", arithmetic = "auto", csv;
  int threads = 0;
  ComparisonOptions comparison;
  int64_t scene_count = 400, shape_count = 400;

  bool bf16() const;
};

void AddOptions(CLI::App& app, Arguments& arguments);

// The command's part of a checkpoint's identity (train_command.cc completes it), as text: the
// options that were given or have defaults, but for where the training is written and how it is
// told.
std::string CommandIdentity(const CLI::App& app);

}  // namespace fovea::models::training
