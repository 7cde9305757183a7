#include "model_zoo/training/tasks/classification_task.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "model_zoo/training/tasks/autocast.h"

namespace fovea::models::training {
namespace {

class ClassificationTask final : public TrainingTask {
 public:
  ClassificationTask(Backbone& backbone, SampleSources sources,
                     const ClassificationTrainingOptions& options)
      : backbone_(backbone),
        options_(options),
        batches_(sources, backbone, options.samples, Framing::kFilled) {}

  BatchLoss Loss(int64_t step) override {
    const TrainingBatch batch = batches_.At(step);
    const at::Tensor logits = Logits(batch);
    const at::Tensor loss = at::cross_entropy_loss(logits, batch.classes, {}, at::Reduction::Mean,
                                                   /*ignore_index=*/-100, options_.label_smoothing);
    const at::Tensor right = logits.argmax(1).eq(batch.classes).to(at::kDouble);
    return {.total = loss,
            .measures = {{"training_loss", loss.item<double>()},
                         {"training_accuracy", right.mean().item<double>()}}};
  }

  Validation Validate() override {
    return Validated([this](const TrainingBatch& batch) { return Logits(batch); });
  }
  Validation ValidateServed(const Model& model) override {
    return Validated([&](const TrainingBatch& batch) {
      PicturesOf context(batch);
      return model.Run(batches_.Pixels(batch), context).at(0);
    });
  }

 private:
  Validation Validated(const std::function<at::Tensor(const TrainingBatch&)>& logits_of) const {
    int64_t right = 0, images = 0;
    batches_.ForEachOfValidation([&](const TrainingBatch& batch) {
      right += logits_of(batch).argmax(1).eq(batch.classes).sum().item<int64_t>();
      images += batch.classes.size(0);
    });
    const double accuracy =
        static_cast<double>(right) / static_cast<double>(std::max<int64_t>(1, images));
    return {.measures = {{"validation_accuracy", accuracy}}, .score = accuracy};
  }

  at::Tensor Logits(const TrainingBatch& batch) const {
    const Autocast autocast(options_.bf16);
    PicturesOf context(batch);
    return backbone_.forward(batches_.Pixels(batch), context).at(0).to(at::kFloat);
  }

  Backbone& backbone_;
  const ClassificationTrainingOptions options_;
  SampleBatches batches_;
};

}  // namespace

std::unique_ptr<TrainingTask> MakeClassificationTask(Backbone& backbone, SampleSources sources,
                                                     const ClassificationTrainingOptions& options) {
  CheckClasses(backbone, sources.training.labels().size());
  return std::make_unique<ClassificationTask>(backbone, sources, options);
}

}  // namespace fovea::models::training
