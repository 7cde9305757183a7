// Accuracy on generated pictures.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "model_zoo/model.h"
#include "model_zoo/training/data/picture.h"

namespace fovea::models::training {

struct Score {
  int64_t images = 0;
  int64_t correct = 0;
  double loss = 0;  // mean cross-entropy, without label smoothing

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(images); }
};

// The first `images` pictures of a stream through `logits_of`: FP32 [N, 3, side, side] -> [N,
// kNumShapes].
Score Evaluate(const std::function<at::Tensor(const at::Tensor&)>& logits_of, uint64_t seed,
               Stream stream, int64_t images, int side);

// The same through a prepared model, as a server runs it.
Score Evaluate(const Model& model, uint64_t seed, Stream stream, int64_t images);

}  // namespace fovea::models::training
