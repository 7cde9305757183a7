// What fovea-train --out trains, and how: what the command line says, and where it says nothing
// training_defaults.h and what follows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/model_description.h"
#include "model_zoo/training/arguments.h"
#include "model_zoo/training/data/user_data/held_out.h"
#include "model_zoo/training/optimisation/trainer.h"
#include "model_zoo/training/tasks/training_task.h"

namespace fovea::models::training {

// Its parts refer to each other: `task` to the backbone and the data.
struct TrainingPlan {
  // As it will be written: with its number of classes, and with a size where it is served at one.
  ModelDescription model;
  Preprocessing preprocessing;      // as the pictures are that the task learns from
  std::vector<std::string> labels;  // in the order of the model's classes
  TrainingData data;                // none where the task draws its pictures of one shape
  std::shared_ptr<Backbone> backbone;
  std::unique_ptr<TrainingTask> task;
  TrainingOptions options;

  bool draws() const { return data.training == nullptr; }
};

// Opens the data, makes the model with its first weights, and prints what people should know of
// both. Throws c10::Error, and std::runtime_error where files or data are wrong.
TrainingPlan PlanOf(const Arguments& arguments);

}  // namespace fovea::models::training
