// The batches of a training step by step, and those of a validation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/training/data/loading/sample_loader.h"

namespace fovea::models::training {

// Where a task's samples come from. Both outlive the task.
struct SampleSources {
  const SampleSource& training;
  const SampleSource& validation;
};

struct SampleBatchOptions {
  uint64_t seed = 1;
  int64_t batch_size = 16;
  std::optional<AugmentationOptions> augmentation;
  int threads = 1;                             // that make batches ahead
  int64_t validation_images = 0;               // the first ones; 0: all that there are
  std::optional<Preprocessing> preprocessing;  // none: as the backbone was published
  bool masks = true;                           // of objects, where the samples have some
  // Gets a sentence about each sample that breaks after the start, on a thread that makes batches.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

// Throws c10::ValueError where the model has another number of classes than the data needs.
void CheckClasses(const Backbone& backbone, uint64_t needed);

class SampleBatches {
 public:
  // Images as large as the backbone's input, normalised as the options say.
  SampleBatches(SampleSources sources, const Backbone& backbone, const SampleBatchOptions& options,
                Framing framing = Framing::kWhole);

  // Of a step of the training, from 0.
  TrainingBatch At(int64_t step);
  // Each batch of the validation that has a sample.
  void ForEachOfValidation(const std::function<void(const TrainingBatch&)>& use) const;

  at::Tensor Pixels(const TrainingBatch& batch) const;  // FP32 [N, 3, H, W]

 private:
  SampleLoaderOptions LoaderOptions(bool training) const;

  const SampleSources sources_;
  const SampleBatchOptions options_;
  const Framing framing_;
  const ImageSize size_;
  const Preprocessing preprocessing_;
  const std::shared_ptr<BrokenSamples> broken_training_, broken_validation_;
  std::optional<SampleLoader> loader_;  // made for the first batch that is asked for
  int64_t next_ = 0;                    // the number of the loader's next batch
};

// What a pass asks about the pictures of a batch.
class PicturesOf final : public ForwardContext {
 public:
  explicit PicturesOf(const TrainingBatch& batch) : batch_(batch) {}
  ImageSize Content(int64_t image, const ImageSize& /*input*/) const override {
    return batch_.contents.at(static_cast<size_t>(image));
  }

 private:
  const TrainingBatch& batch_;
};

}  // namespace fovea::models::training
