// What a training learns: a loss of each batch, and how well pictures that it never saw are done.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_zoo/model.h"

namespace fovea::models::training {

// A number that is told, by its name: a column of the CSV file.
struct Measure {
  std::string name;
  double value = 0;
};

// Of the measure with this name. Throws c10::Error where there is none.
double ValueOf(const std::vector<Measure>& measures, std::string_view name);

struct BatchLoss {
  at::Tensor total;  // what is differentiated
  // The same for every batch; an epoch tells their means. The first is the loss that the progress
  // bar shows.
  std::vector<Measure> measures;
};

struct Validation {
  std::vector<Measure> measures;
  double score = 0;  // by which epochs are compared: larger is better
};

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // What is learned besides the backbone's parameters and is no part of the model: FP32 leaves that
  // require a gradient.
  struct Extra {
    at::Tensor parameter;
    bool decays = false;
  };
  virtual std::vector<Extra> extras() const { return {}; }

  // Of the batch number `step`, from 0. The same number and weights give the same batch and loss:
  // whatever is drawn is drawn from a seed and the number, so that a training can go on where
  // another process stopped. Quickest where the numbers come in order; the first need not be 0.
  virtual BatchLoss Loss(int64_t step) = 0;

  // With the backbone as it is, which does not train meanwhile.
  virtual Validation Validate() = 0;
  // The same pictures through a loaded and prepared model: what was written, as it is served.
  virtual Validation ValidateServed(const Model& model) = 0;
};

}  // namespace fovea::models::training
