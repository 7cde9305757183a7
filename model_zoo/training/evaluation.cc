#include "model_zoo/training/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model_zoo/training/data/dataset.h"

namespace fovea::models::training {

Score Evaluate(const std::function<at::Tensor(const at::Tensor&)>& logits_of, uint64_t seed,
               Stream stream, int64_t images, int side) {
  constexpr int64_t kBatch = 120;
  const at::NoGradGuard no_grad;
  Score score;
  double loss = 0;
  while (score.images < images) {
    const int64_t count = std::min(kBatch, images - score.images);
    const Batch batch = DrawBatch(seed, stream, score.images, count, side);
    const at::Tensor logits = logits_of(Normalised(batch.pixels)).to(at::kFloat);
    loss +=
        at::cross_entropy_loss(logits, batch.labels).item<double>() * static_cast<double>(count);
    score.correct += logits.argmax(1).eq(batch.labels).sum().item<int64_t>();
    score.images += count;
  }
  score.loss = loss / static_cast<double>(score.images);
  return score;
}

Score Evaluate(const Model& model, uint64_t seed, Stream stream, int64_t images) {
  ForwardContext context;
  return Evaluate([&](const at::Tensor& pixels) { return model.Run(pixels, context).at(0); }, seed,
                  stream, images, static_cast<int>(model.info().image_height));
}

}  // namespace fovea::models::training
