// How far the pixels alone go: a multinomial logistic regression on them, against which the demo
// models are measured.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace fovea::models::training {

struct LinearBaselineOptions {
  uint64_t seed = 1;
  int side = 64;
  int64_t training_images = 24'000;
  int64_t validation_images = 2'400;
  int epochs = 12;
  // One classifier is trained with each; the best one on the validation set counts.
  std::vector<double> weight_decays = {10.0, 100.0, 300.0};
};

struct LinearBaselineResult {
  double weight_decay;
  double training_accuracy;    // in [0, 1]
  double validation_accuracy;  // in [0, 1]; after the best epoch
};

// One result per weight decay. The classifier sees every pixel less its mean over the training set,
// and as many pictures as its weights can learn from: what it lacks is not training. `on_result`
// hears of each as it is there.
std::vector<LinearBaselineResult> MeasureLinearBaseline(
    const LinearBaselineOptions& options,
    const std::function<void(const LinearBaselineResult&)>& on_result);

}  // namespace fovea::models::training
