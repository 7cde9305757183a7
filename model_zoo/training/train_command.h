// fovea-train --out: from the command line to a model folder that serves.
#pragma once

#include <string>

#include "model_zoo/training/arguments.h"

namespace fovea::models::training {

// Trains what the arguments say (PlanOf), prints how it goes, and writes the folder. `command`: the
// arguments as a checkpoint's identity has them (CommandIdentity), which what they led to
// completes. Replaces neither a model nor a training that was stopped unless it is told to; of a
// model that is there nothing is resumed. Throws c10::Error, and std::runtime_error where files or
// data are wrong.
void TrainAndWrite(const Arguments& arguments, const std::string& command);

// A line with the accuracy of a classifier's folder on generated pictures.
void PrintEvaluation(const std::string& folder, uint64_t seed, int64_t images);

}  // namespace fovea::models::training
