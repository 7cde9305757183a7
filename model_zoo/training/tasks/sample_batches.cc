#include "model_zoo/training/tasks/sample_batches.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace fovea::models::training {

void CheckClasses(const Backbone& backbone, uint64_t needed) {
  const auto has = static_cast<uint64_t>(backbone.info().num_classes);
  TORCH_CHECK_VALUE(has == needed, "the data needs ", needed, " classes, the model has ", has);
}

SampleBatches::SampleBatches(SampleSources sources, const Backbone& backbone,
                             const SampleBatchOptions& options, Framing framing)
    : sources_(sources),
      options_(options),
      framing_(framing),
      size_{backbone.info().image_height, backbone.info().image_width},
      preprocessing_(options.preprocessing.value_or(backbone.info().preprocessing)),
      broken_training_(std::make_shared<BrokenSamples>(sources.training.size(), options.tell)),
      broken_validation_(std::make_shared<BrokenSamples>(sources.validation.size(), options.tell)) {
}

SampleLoaderOptions SampleBatches::LoaderOptions(bool training) const {
  return {.batch_size = options_.batch_size,
          .size = size_,
          .framing = framing_,
          .seed = options_.seed,
          .training = training,
          .augmentation = options_.augmentation,
          .masks = options_.masks,
          .threads = options_.threads,
          .broken = training ? broken_training_ : broken_validation_};
}

TrainingBatch SampleBatches::At(int64_t step) {
  if (!loader_ || step != next_) {
    SampleLoaderOptions options = LoaderOptions(/*training=*/true);
    options.first_batch = step;
    loader_.emplace(sources_.training, options);
  }
  next_ = step + 1;
  return loader_->Next();
}

void SampleBatches::ForEachOfValidation(
    const std::function<void(const TrainingBatch&)>& use) const {
  SampleLoader loader(sources_.validation, LoaderOptions(/*training=*/false));
  int64_t left = options_.validation_images;
  for (int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
    const TrainingBatch batch = loader.Next();
    if (batch.pixels.size(0) == 0) continue;
    use(batch);
    if (options_.validation_images > 0 && (left -= batch.pixels.size(0)) <= 0) break;
  }
}

at::Tensor SampleBatches::Pixels(const TrainingBatch& batch) const {
  return NormalisedSamples(batch, preprocessing_);
}

}  // namespace fovea::models::training
