#include "model_zoo/training/tasks/segmentation_task.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>

#include "model_zoo/training/losses/segmentation_loss.h"
#include "model_zoo/training/tasks/autocast.h"

namespace fovea::models::training {
namespace {

class SegmentationTask final : public TrainingTask {
 public:
  SegmentationTask(Backbone& backbone, SampleSources sources,
                   const SegmentationTrainingOptions& options)
      : backbone_(backbone), options_(options), batches_(sources, backbone, options.samples) {}

  BatchLoss Loss(int64_t step) override {
    const TrainingBatch batch = batches_.At(step);
    const at::Tensor logits = Logits(batch);
    const at::Tensor loss = SegmentationLoss(logits, batch.class_map);
    const at::Tensor known = batch.class_map.ne(TrainingBatch::kIgnored);
    const at::Tensor right = Classes(logits.detach(), batch).eq(batch.class_map) & known;
    const double pixels = std::max(1.0, known.sum().item<double>());
    return {.total = loss,
            .measures = {{"training_loss", loss.item<double>()},
                         {"training_accuracy", right.sum().item<double>() / pixels}}};
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
  using Predict = std::function<at::Tensor(const TrainingBatch&)>;

  Validation Validated(const Predict& logits_of) const {
    const int64_t classes = backbone_.info().num_classes;
    at::Tensor counts = at::zeros({classes * classes}, at::kLong);  // by true, then found class
    batches_.ForEachOfValidation([&](const TrainingBatch& batch) {
      const at::Tensor known = batch.class_map.ne(TrainingBatch::kIgnored);
      const at::Tensor found = Classes(logits_of(batch), batch);
      const at::Tensor both = (batch.class_map * classes + found).masked_select(known);
      counts += at::bincount(both, {}, classes * classes);
    });
    const at::Tensor table = counts.view({classes, classes}).to(at::kDouble);
    const at::Tensor shared = table.diagonal();
    const at::Tensor united = table.sum(0) + table.sum(1) - shared;
    const at::Tensor there = united > 0;
    TORCH_CHECK_VALUE(
        there.any().item<bool>(),
        "no pixel of the validation pictures has a class: there is nothing to measure");
    const double mean = (shared / united).masked_select(there).mean().item<double>();
    return {.measures = {{"validation_miou", mean}}, .score = mean};
  }

  at::Tensor Logits(const TrainingBatch& batch) const {
    const Autocast autocast(options_.bf16);
    PicturesOf context(batch);
    return backbone_.forward(batches_.Pixels(batch), context).at(0);
  }

  // INT64 [N, H, W], as a server resizes the logits.
  static at::Tensor Classes(const at::Tensor& logits, const TrainingBatch& batch) {
    return at::upsample_bilinear2d(logits.to(at::kFloat),
                                   {batch.class_map.size(1), batch.class_map.size(2)},
                                   /*align_corners=*/false)
        .argmax(1);
  }

  Backbone& backbone_;
  const SegmentationTrainingOptions options_;
  SampleBatches batches_;
};

}  // namespace

std::unique_ptr<TrainingTask> MakeSegmentationTask(Backbone& backbone, SampleSources sources,
                                                   const SegmentationTrainingOptions& options) {
  CheckClasses(backbone, sources.training.map_labels().size());
  return std::make_unique<SegmentationTask>(backbone, sources, options);
}

}  // namespace fovea::models::training
