#include "model_zoo/training/tasks/detection_task.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "model_zoo/heads/anchor_detector.h"
#include "model_zoo/heads/headed_backbone.h"
#include "model_zoo/heads/two_stage.h"
#include "model_zoo/training/tasks/autocast.h"
#include "model_zoo/training/tasks/average_precision.h"

namespace fovea::models::training {
namespace {

// How well the masks of found objects fit.
class MaskIou {
 public:
  // The detections of an image: boxes [D, 4], masks [D, side, side] within them, and the object
  // that each shows (TakenObjects).
  void Add(const at::Tensor& boxes, const at::Tensor& masks, const at::Tensor& objects,
           const ImageTruth& truth) {
    const at::Tensor shown = (objects >= 0).nonzero().squeeze(1);
    if (shown.size(0) == 0) return;
    const at::Tensor wanted =
        MasksWithin(truth, objects.index_select(0, shown), boxes.index_select(0, shown),
                    masks.size(1), masks.size(2)) >= 0.5;
    const at::Tensor found = masks.index_select(0, shown) >= 0.5;
    const at::Tensor shared = (wanted & found).sum({1, 2}).to(at::kDouble);
    const at::Tensor united = (wanted | found).sum({1, 2}).to(at::kDouble);
    sum_ += (shared / united.clamp_min(1)).sum().item<double>();
    count_ += shown.size(0);
  }

  double Mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

class DetectionTask : public TrainingTask {
 public:
  DetectionTask(Backbone& backbone, SampleSources sources, const DetectionTrainingOptions& options)
      : backbone_(backbone),
        options_(options),
        batches_(sources, backbone, options.samples),
        first_label_(HeadOf(backbone)->background_classes()) {}

  Validation Validate() override {
    return Validated([this](const TrainingBatch& batch) {
      PicturesOf context(batch);
      std::vector<at::Tensor> found;
      {
        const Autocast autocast(options_.bf16);
        found = backbone_.forward(batches_.Pixels(batch), context);
      }
      return backbone_.Finish(std::move(found), batch.contents);
    });
  }
  Validation ValidateServed(const Model& model) override {
    return Validated([&](const TrainingBatch& batch) {
      PicturesOf context(batch);
      return model.Run(batches_.Pixels(batch), context);
    });
  }

 protected:
  // The backbone's maps of a batch, in the type of the activations.
  std::vector<at::Tensor> Maps(const TrainingBatch& batch, ForwardContext& context) const {
    return backbone_.Features(batches_.Pixels(batch), context);
  }

  // Of a step, labelled as the head numbers its classes.
  TrainingBatch BatchAt(int64_t step) {
    TrainingBatch batch = batches_.At(step);
    for (ImageTruth& image : batch.images) image.labels = image.labels + first_label_;
    return batch;
  }

  const DetectionTrainingOptions& options() const { return options_; }

 private:
  // What a detector gives for a batch.
  using Predict = std::function<std::vector<at::Tensor>(const TrainingBatch&)>;

  Validation Validated(const Predict& predict) const {
    AveragePrecision precision;
    MaskIou mask_iou;
    bool masks = false;
    batches_.ForEachOfValidation([&](const TrainingBatch& batch) {
      const std::vector<at::Tensor> found = predict(batch);
      masks = found.size() > 4 && batch.images[0].masks.size(0) == batch.images[0].boxes.size(0);
      for (size_t i = 0; i < batch.images.size(); ++i) {
        const auto image = static_cast<int64_t>(i);
        const int64_t count = found[3][image].item<int64_t>();
        const at::Tensor boxes = found[0][image].slice(0, 0, count);
        const at::Tensor labels = found[2][image].slice(0, 0, count) - first_label_;
        precision.Add(boxes, found[1][image].slice(0, 0, count), labels, batch.images[i]);
        if (masks) {
          mask_iou.Add(boxes, found[4][image].slice(0, 0, count),
                       TakenObjects(boxes, labels, batch.images[i]), batch.images[i]);
        }
      }
    });
    Validation validation{.measures = {{"validation_box_ap50", precision.Mean()}},
                          .score = precision.Mean()};
    if (masks) {
      validation.measures.push_back({"validation_mask_iou", mask_iou.Mean()});
      validation.score += mask_iou.Mean();
    }
    return validation;
  }

  Backbone& backbone_;
  const DetectionTrainingOptions options_;
  SampleBatches batches_;
  const int64_t first_label_;
};

class AnchorDetectionTask final : public DetectionTask {
 public:
  AnchorDetectionTask(Backbone& backbone, const AnchorDetector& head, SampleSources sources,
                      const DetectionTrainingOptions& options)
      : DetectionTask(backbone, sources, options), head_(head) {}

  BatchLoss Loss(int64_t step) override {
    const TrainingBatch batch = BatchAt(step);
    PicturesOf context(batch);
    AnchorOutputs outputs;
    {
      const Autocast autocast(options().bf16);
      outputs = head_.Outputs(Maps(batch, context));
    }
    const AnchorLoss loss = LossOfAnchors(outputs, batch.images, options().anchors);
    const at::Tensor total = loss.classification + loss.boxes;
    return {.total = total,
            .measures = {{"training_loss", total.item<double>()},
                         {"class_loss", loss.classification.item<double>()},
                         {"box_loss", loss.boxes.item<double>()}}};
  }

 private:
  const AnchorDetector& head_;
};

class RegionDetectionTask final : public DetectionTask {
 public:
  RegionDetectionTask(Backbone& backbone, const TwoStageHead& head, SampleSources sources,
                      const DetectionTrainingOptions& options)
      : DetectionTask(backbone, sources, options),
        head_(head),
        coding_{.background = head.background_classes() > 0 ? 0 : head.num_classes(),
                .weights = head.design().box_weights.front()} {}

  BatchLoss Loss(int64_t step) override {
    const TrainingBatch batch = BatchAt(step);
    // Samples follow from the step, as the pictures do.
    Random random(options().samples.seed, kSampleStream, static_cast<uint64_t>(step));
    PicturesOf context(batch);
    std::vector<at::Tensor> pyramid;
    std::vector<RegionProposals::Scores> scores;
    {
      const Autocast autocast(options().bf16);
      pyramid = head_.pyramid().forward(Maps(batch, context));
      for (const at::Tensor& map : pyramid) scores.push_back(head_.proposals().Score(map));
    }
    const ProposalLoss proposals =
        LossOfProposals(OutputsOf(pyramid, scores), batch.images, options().regions, random);
    std::vector<RegionSample> regions;
    std::vector<at::Tensor> boxes, foreground;
    for (const at::Tensor& proposed : Propose(pyramid, scores, batch)) {
      const size_t image = regions.size();
      regions.push_back(SampleRegions(proposed, batch.images[image], options().regions, random));
      boxes.push_back(regions.back().boxes);
      foreground.push_back(regions.back().boxes.slice(0, 0, regions.back().foreground));
    }
    // The coarsest map is for proposals only.
    const std::span<const at::Tensor> finer(pyramid.data(), pyramid.size() - 1);
    RoiHeads::Boxes found;
    at::Tensor masks;
    {
      const Autocast autocast(options().bf16);
      found = head_.roi_heads().PredictBoxes(0, Features(finer, boxes, BoxHead::kSide));
      at::Tensor labels = ForegroundLabels(regions, batch.images);
      // Where no object is, one region stands in, which counts nothing: every layer has a gradient.
      if (labels.size(0) == 0) {
        foreground[0] = boxes[0].slice(0, 0, 1);
        labels = at::zeros({1}, labels.options());
      }
      masks =
          head_.roi_heads().PredictMasks(0, Features(finer, foreground, MaskHead::kSide), labels);
    }
    const RegionLoss region =
        LossOfRegions(found.logits, found.deltas, regions, batch.images, coding_);
    const at::Tensor mask_loss = LossOfMasks(masks, regions, batch.images);
    const at::Tensor total =
        proposals.objectness + proposals.boxes + region.classification + region.boxes + mask_loss;
    return {.total = total,
            .measures = {{"training_loss", total.item<double>()},
                         {"objectness_loss", proposals.objectness.item<double>()},
                         {"proposal_loss", proposals.boxes.item<double>()},
                         {"class_loss", region.classification.item<double>()},
                         {"box_loss", region.boxes.item<double>()},
                         {"mask_loss", mask_loss.item<double>()}}};
  }

 private:
  static constexpr uint32_t kSampleStream = 0x524F49;  // of no picture

  // FP32, outside of autocast: positions of samples have no place in bfloat16.
  at::Tensor Features(std::span<const at::Tensor> pyramid, const std::vector<at::Tensor>& boxes,
                      int64_t side) const {
    const Autocast off(false);
    return LearnableRegionFeatures(pyramid, std::span(head_.strides()).first(pyramid.size()), boxes,
                                   side, head_.options().conventions);
  }

  AnchorOutputs OutputsOf(const std::vector<at::Tensor>& pyramid,
                          const std::vector<RegionProposals::Scores>& scores) const {
    std::vector<at::Tensor> logits, deltas;
    for (const RegionProposals::Scores& map : scores) {
      logits.push_back(map.objectness);
      deltas.push_back(map.deltas);
    }
    const int64_t images = logits[0].size(0);
    return {.logits = at::cat(logits, 1).unsqueeze(2),
            .deltas = at::cat(deltas, 1).view({images, -1, 4}),
            .anchors = head_.proposals().AllAnchors(pyramid),
            .conventions = head_.options().conventions};
  }

  // Where the second stage looks: no gradient goes back through the boxes.
  std::vector<at::Tensor> Propose(const std::vector<at::Tensor>& pyramid,
                                  const std::vector<RegionProposals::Scores>& scores,
                                  const TrainingBatch& batch) const {
    const at::NoGradGuard no_grad;
    return head_.proposals().Propose(pyramid, scores, batch.contents);
  }

  const TwoStageHead& head_;
  const RegionCoding coding_;
};

}  // namespace

std::unique_ptr<TrainingTask> MakeDetectionTask(Backbone& backbone, SampleSources sources,
                                                const DetectionTrainingOptions& options) {
  const Head* head = HeadOf(backbone);
  TORCH_CHECK_VALUE(head != nullptr, "a detector has a head");
  CheckClasses(backbone, head->background_classes() + sources.training.labels().size());
  if (const auto* anchors = dynamic_cast<const AnchorDetector*>(head)) {
    DetectionTrainingOptions without_masks = options;
    without_masks.samples.masks = false;
    return std::make_unique<AnchorDetectionTask>(backbone, *anchors, sources, without_masks);
  }
  const auto* regions = dynamic_cast<const TwoStageHead*>(head);
  TORCH_CHECK_VALUE(regions != nullptr && regions->roi_heads().stages() == 1,
                    "fovea-train trains the detectors retinanet and mask_rcnn");
  TORCH_CHECK_VALUE(sources.training.ground_truth().masks,
                    "mask_rcnn learns from masks, and not all objects of the data have one: --head "
                    "retinanet learns from boxes alone");
  return std::make_unique<RegionDetectionTask>(backbone, *regions, sources, options);
}

bool LearnsMasks(const Backbone& backbone) {
  return dynamic_cast<const TwoStageHead*>(HeadOf(backbone)) != nullptr;
}

}  // namespace fovea::models::training
