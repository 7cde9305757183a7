// Pictures as tensors, drawn ahead of the training on threads of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <future>

#include "model_zoo/training/data/generated/picture.h"

namespace fovea::models::training {

struct ShapeBatch {
  at::Tensor pixels;  // UINT8 [N, side, side, 3], RGB
  at::Tensor labels;  // INT64 [N], values of Shape
  at::Tensor extent;  // UINT8 [N, side, side]: Picture::extent
};

// The pictures first, first + 1, ..., first + count - 1 of a stream.
ShapeBatch DrawShapeBatch(uint64_t seed, Stream stream, uint64_t first, int64_t count, int side);

// UINT8 [N, H, W, 3] to FP32 [N, 3, H, W] in [-1, 1]: a mean and a deviation of 0.5, as the demo
// models' preprocessing.
at::Tensor NormalisedShapes(const at::Tensor& pixels);

// A stream's pictures from the first on, batch after batch, without end. What comes does not depend
// on the number of threads. Not thread-safe.
class ShapeLoader {
 public:
  struct Options {
    uint64_t seed = 1;
    Stream stream = Stream::kTraining;
    int64_t batch_size = 64;
    int side = 64;
    // Batches drawn at a time, each on a thread of its own, while the caller uses an earlier one.
    int threads = 1;
    int64_t first_batch = 0;  // to begin with
  };
  explicit ShapeLoader(const Options& options);

  ShapeBatch Next();

 private:
  void DrawAnother();

  const Options options_;
  int64_t started_ = 0;  // batches
  std::deque<std::future<ShapeBatch>> drawing_;
};

}  // namespace fovea::models::training
