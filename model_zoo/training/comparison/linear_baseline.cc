#include "model_zoo/training/comparison/linear_baseline.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model_zoo/training/data/loading/shape_loader.h"
#include "model_zoo/training/optimisation/adamw.h"
#include "model_zoo/training/optimisation/schedule.h"

namespace fovea::models::training {
namespace {

constexpr int64_t kBatch = 240;
constexpr double kPeakLearningRate = 3e-4;

double Accuracy(const at::Tensor& logits, const at::Tensor& labels) {
  return logits.argmax(1).eq(labels).to(at::kDouble).mean().item<double>();
}

struct Pixels {
  at::Tensor features;  // FP32 [N, 3 * side * side]
  at::Tensor labels;
};

Pixels DrawPixels(const LinearBaselineOptions& options, Stream stream, int64_t images) {
  const ShapeBatch batch = DrawShapeBatch(options.seed, stream, 0, images, options.side);
  return {NormalisedShapes(batch.pixels).flatten(1), batch.labels};
}

LinearBaselineResult Train(const LinearBaselineOptions& options, double weight_decay,
                           const Pixels& training, const Pixels& validation) {
  // Convex: the start does not matter.
  at::Tensor weight = at::zeros({kNumShapes, training.features.size(1)}).requires_grad_();
  at::Tensor bias = at::zeros({kNumShapes}).requires_grad_();
  AdamW optimizer({.weight_decay = weight_decay});
  optimizer.Add(weight, /*decays=*/true);
  optimizer.Add(bias, /*decays=*/false);
  const int64_t steps_per_epoch = training.features.size(0) / kBatch;
  const Schedule schedule{.peak = kPeakLearningRate,
                          .total_steps = options.epochs * steps_per_epoch};
  LinearBaselineResult result{weight_decay, 0, 0};
  for (int64_t step = 0; step < schedule.total_steps; ++step) {
    // Classes take turns in the stream: any run of pictures is balanced, and needs no shuffling.
    const int64_t first = step % steps_per_epoch * kBatch;
    optimizer.ZeroGradients();
    const at::Tensor logits = at::linear(training.features.narrow(0, first, kBatch), weight, bias);
    at::cross_entropy_loss(logits, training.labels.narrow(0, first, kBatch)).backward();
    optimizer.Step(schedule.At(step));
    if ((step + 1) % steps_per_epoch == 0) {
      const at::NoGradGuard no_grad;
      const double accuracy =
          Accuracy(at::linear(validation.features, weight, bias), validation.labels);
      result.validation_accuracy = std::max(result.validation_accuracy, accuracy);
    }
  }
  const at::NoGradGuard no_grad;
  result.training_accuracy = Accuracy(at::linear(training.features, weight, bias), training.labels);
  return result;
}

}  // namespace

std::vector<LinearBaselineResult> MeasureLinearBaseline(
    const LinearBaselineOptions& options,
    const std::function<void(const LinearBaselineResult&)>& on_result) {
  Pixels training = DrawPixels(options, Stream::kTraining, options.training_images);
  Pixels validation = DrawPixels(options, Stream::kValidation, options.validation_images);
  const at::Tensor mean = training.features.mean(0, /*keepdim=*/true);
  training.features.sub_(mean);
  validation.features.sub_(mean);
  std::vector<LinearBaselineResult> results;
  for (double weight_decay : options.weight_decays) {
    results.push_back(Train(options, weight_decay, training, validation));
    on_result(results.back());
  }
  return results;
}

}  // namespace fovea::models::training
