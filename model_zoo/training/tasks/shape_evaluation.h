// Accuracy on generated pictures.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "model_zoo/model.h"
#include "model_zoo/training/data/generated/picture.h"

namespace fovea::models::training {

struct Score {
  int64_t images = 0;
  int64_t correct = 0;
  double loss = 0;  // mean cross-entropy, without label smoothing

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(images); }
};

// FP32 [N, 3, side, side] -> [N, kNumShapes].
struct Classifier {
  std::function<at::Tensor(const at::Tensor&)> logits_of;
  int side = 0;
};

// A prepared model, as a server runs it. The model has to outlive it.
Classifier ClassifierOf(const Model& model);

// The first `images` pictures of a stream through each classifier, drawn once for all that want
// them of one size. A score a classifier, in their order.
std::vector<Score> Evaluate(const std::vector<Classifier>& classifiers, uint64_t seed,
                            Stream stream, int64_t images);
Score Evaluate(const Classifier& classifier, uint64_t seed, Stream stream, int64_t images);

}  // namespace fovea::models::training
