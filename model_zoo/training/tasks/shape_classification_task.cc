#include "model_zoo/training/tasks/shape_classification_task.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <optional>
#include <vector>

#include "model_zoo/training/data/loading/shape_loader.h"
#include "model_zoo/training/tasks/autocast.h"
#include "model_zoo/training/tasks/extent_guide.h"
#include "model_zoo/training/tasks/shape_evaluation.h"

namespace fovea::models::training {
namespace {

// Of the tokens that the guide looks at: a look at one black picture tells.
int64_t GuidedChannels(Backbone& backbone, const std::string& block) {
  const at::NoGradGuard no_grad;
  backbone.eval();
  BlockOutput output(block);
  backbone.forward(at::zeros({1, 3, backbone.info().image_height, backbone.info().image_width}),
                   output);
  backbone.train();
  return output.tokens().size(2);
}

class ShapeClassificationTask final : public TrainingTask {
 public:
  ShapeClassificationTask(Backbone& backbone, const ShapeClassificationOptions& options)
      : backbone_(backbone),
        options_(options),
        side_(static_cast<int>(backbone.info().image_height)) {
    if (options.guide_weight > 0) guide_.emplace(GuidedChannels(backbone, options.guide_block));
  }

  std::vector<Extra> extras() const override {
    if (!guide_) return {};
    return {{guide_->weight(), /*decays=*/true}, {guide_->bias(), /*decays=*/false}};
  }

  BatchLoss Loss(int64_t step) override {
    const ShapeBatch batch = Draw(step);
    BlockOutput guided(options_.guide_block);
    ForwardContext unguided;
    const at::Tensor logits = Logits(NormalisedShapes(batch.pixels), guide_ ? guided : unguided);
    const at::Tensor loss = at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Mean,
                                                   /*ignore_index=*/-100, options_.label_smoothing);
    BatchLoss found{.total = loss, .measures = {{"training_loss", loss.item<double>()}}};
    double guide_value = 0;
    if (guide_) {
      const at::Tensor guide_loss = guide_->Loss(guided.tokens(), batch.extent);
      guide_value = guide_loss.item<double>();
      found.total = loss + options_.guide_weight * guide_loss;
    }
    found.measures.push_back({"guide_loss", guide_value});
    found.measures.push_back(
        {"training_accuracy",
         logits.argmax(1).eq(batch.labels).to(at::kDouble).mean().item<double>()});
    return found;
  }

  Validation Validate() override {
    ForwardContext context;
    const Classifier trained = {
        .logits_of = [&](const at::Tensor& pixels) { return Logits(pixels, context); },
        .side = side_};
    return Validated(trained);
  }
  Validation ValidateServed(const Model& model) override { return Validated(ClassifierOf(model)); }

 private:
  Validation Validated(const Classifier& classifier) const {
    const Score score =
        Evaluate(classifier, options_.seed, Stream::kValidation, options_.validation_images);
    return {
        .measures = {{"validation_loss", score.loss}, {"validation_accuracy", score.accuracy()}},
        .score = score.accuracy()};
  }

  ShapeBatch Draw(int64_t step) {
    if (step != next_ || !loader_) {
      loader_.emplace(ShapeLoader::Options{.seed = options_.seed,
                                           .stream = Stream::kTraining,
                                           .batch_size = options_.batch_size,
                                           .side = side_,
                                           .threads = options_.drawing_threads,
                                           .first_batch = step});
    }
    next_ = step + 1;
    return loader_->Next();
  }

  at::Tensor Logits(const at::Tensor& pixels, ForwardContext& context) const {
    const Autocast autocast(options_.bf16);
    return backbone_.forward(pixels, context).at(0).to(at::kFloat);
  }

  Backbone& backbone_;
  const ShapeClassificationOptions options_;
  const int side_;
  std::optional<ExtentGuide> guide_;
  std::optional<ShapeLoader> loader_;  // made for the first batch that is asked for
  int64_t next_ = 0;                   // the number of the loader's next batch
};

}  // namespace

std::unique_ptr<TrainingTask> MakeShapeClassificationTask(
    Backbone& backbone, const ShapeClassificationOptions& options) {
  TORCH_CHECK_VALUE(options.batch_size > 0, "a batch has at least one image");
  TORCH_CHECK_VALUE(backbone.info().num_classes == kNumShapes, "the pictures have ", kNumShapes,
                    " classes, the model has ", backbone.info().num_classes);
  return std::make_unique<ShapeClassificationTask>(backbone, options);
}

}  // namespace fovea::models::training
