#include "model_zoo/training/tasks/shape_evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "model_zoo/training/data/loading/shape_loader.h"

namespace fovea::models::training {
namespace {

struct Pictures {
  at::Tensor pixels;  // normalised
  at::Tensor labels;
};

void Count(const at::Tensor& logits, const at::Tensor& labels, Score& score) {
  const auto images = labels.size(0);
  score.loss += at::cross_entropy_loss(logits, labels).item<double>() * static_cast<double>(images);
  score.correct += logits.argmax(1).eq(labels).sum().item<int64_t>();
  score.images += images;
}

}  // namespace

Classifier ClassifierOf(const Model& model) {
  return {.logits_of =
              [&model](const at::Tensor& pixels) {
                ForwardContext context;
                return model.Run(pixels, context).at(0);
              },
          .side = static_cast<int>(model.info().image_height)};
}

std::vector<Score> Evaluate(const std::vector<Classifier>& classifiers, uint64_t seed,
                            Stream stream, int64_t images) {
  constexpr int64_t kBatch = 120;
  const at::NoGradGuard no_grad;
  std::vector<Score> scores(classifiers.size());
  for (int64_t first = 0; first < images; first += kBatch) {
    const int64_t count = std::min(kBatch, images - first);
    std::map<int, Pictures> by_side;
    for (size_t i = 0; i < classifiers.size(); ++i) {
      const int side = classifiers[i].side;
      auto [pictures, added] = by_side.try_emplace(side);
      if (added) {
        const ShapeBatch batch = DrawShapeBatch(seed, stream, first, count, side);
        pictures->second = {.pixels = NormalisedShapes(batch.pixels), .labels = batch.labels};
      }
      const auto& [pixels, labels] = pictures->second;
      Count(classifiers[i].logits_of(pixels).to(at::kFloat), labels, scores[i]);
    }
  }
  for (Score& score : scores) score.loss /= static_cast<double>(score.images);
  return scores;
}

Score Evaluate(const Classifier& classifier, uint64_t seed, Stream stream, int64_t images) {
  return Evaluate(std::vector{classifier}, seed, stream, images).front();
}

}  // namespace fovea::models::training
