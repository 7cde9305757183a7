#include "model_zoo/training/trainer.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "model_zoo/training/data/dataset.h"
#include "model_zoo/training/evaluation.h"
#include "model_zoo/training/extent_guide.h"
#include "model_zoo/training/schedule.h"

namespace fovea::models::training {
namespace {

// Matrix products in bfloat16 while it lives.
class Autocast {
 public:
  explicit Autocast(bool on) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, on);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
  ~Autocast() {
    at::autocast::clear_cache();  // holds casts of weights that the next step changes
    at::autocast::set_autocast_enabled(at::kCPU, before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool before_;
};

// Torch's fused attention for the CPU is made for long sequences: at 65 tokens its backward pass in
// bfloat16 takes six times as long as that of plain matrix products.
class PlainAttention {
 public:
  PlainAttention()
      : flash_before_(at::globalContext().userEnabledFlashSDP()),
        reduced_before_(at::globalContext().allowFP16BF16ReductionMathSDP()) {
    at::globalContext().setSDPUseFlash(false);
    at::globalContext().setAllowFP16BF16ReductionMathSDP(true);
  }
  ~PlainAttention() {
    at::globalContext().setSDPUseFlash(flash_before_);
    at::globalContext().setAllowFP16BF16ReductionMathSDP(reduced_before_);
  }
  PlainAttention(const PlainAttention&) = delete;
  PlainAttention& operator=(const PlainAttention&) = delete;

 private:
  const bool flash_before_, reduced_before_;
};

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

class Training {
 public:
  Training(Backbone& backbone, const TrainingOptions& options)
      : backbone_(backbone),
        options_(options),
        steps_per_epoch_(std::max<int64_t>(1, options.images_per_epoch / options.batch_size)),
        total_steps_(options.epochs * steps_per_epoch_),
        schedule_{.peak = options.peak_learning_rate,
                  .warmup_steps = ShareOfSteps(options.warmup_share),
                  .total_steps = total_steps_},
        side_(static_cast<int>(backbone.info().image_height)),
        loader_({.seed = options.seed,
                 .stream = Stream::kTraining,
                 .batch_size = options.batch_size,
                 .side = side_,
                 .threads = options.drawing_threads}),
        optimizer_(options.optimizer) {
    for (const auto& parameter : backbone.named_parameters()) {
      // What is added to the tokens ("cls_token", "pos_embed") is no matrix, whatever its shape.
      const std::string& name = parameter.key();
      const bool embedding = name.ends_with("_token") || name.ends_with("pos_embed");
      optimizer_.Add(parameter.value(), /*decays=*/parameter.value().dim() >= 2 && !embedding);
    }
    if (options.guide_weight > 0) {
      guide_.emplace(GuidedChannels(backbone, options.guide_block));
      optimizer_.Add(guide_->weight(), /*decays=*/true);
      optimizer_.Add(guide_->bias(), /*decays=*/false);
    }
  }

  void Run(const std::function<void(const StepReport&)>& on_step,
           const std::function<void(const EpochReport&)>& on_epoch) {
    const PlainAttention plain_attention;
    const auto start = std::chrono::steady_clock::now();
    for (int epoch = 1; epoch <= options_.epochs; ++epoch) {
      EpochReport report{.epoch = epoch};
      for (int64_t i = 0; i < steps_per_epoch_; ++i) on_step(Step(report));
      report.training_loss /= static_cast<double>(steps_per_epoch_);
      report.guide_loss /= static_cast<double>(steps_per_epoch_);
      report.training_accuracy /= static_cast<double>(steps_per_epoch_);
      Validate(report);
      report.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      on_epoch(report);
    }
  }

 private:
  int64_t ShareOfSteps(double share) const {
    return std::llround(share * static_cast<double>(total_steps_));
  }

  // One batch; adds what it found to the report's sums.
  StepReport Step(EpochReport& report) {
    const Batch batch = loader_.Next();
    BlockOutput guided(options_.guide_block);
    ForwardContext unguided;
    const at::Tensor logits = Logits(Normalised(batch.pixels), guide_ ? guided : unguided);
    const at::Tensor loss = at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Mean,
                                                   /*ignore_index=*/-100, options_.label_smoothing);
    at::Tensor total = loss;
    if (guide_) {
      const at::Tensor guide_loss = guide_->Loss(guided.tokens(), batch.extent);
      report.guide_loss += guide_loss.item<double>();
      total = loss + options_.guide_weight * guide_loss;
    }
    const double loss_value = loss.item<double>();
    TORCH_CHECK(std::isfinite(loss_value), "the loss is ", loss_value, " at step ", step_,
                ": a lower learning rate may help");
    optimizer_.ZeroGradients();
    total.backward();
    optimizer_.ClipGradients(options_.clip_norm);
    report.learning_rate = schedule_.At(step_);
    optimizer_.Step(report.learning_rate);

    report.training_loss += loss_value;
    report.training_accuracy +=
        logits.argmax(1).eq(batch.labels).to(at::kDouble).mean().item<double>();
    return {++step_, total_steps_, loss_value};
  }

  void Validate(EpochReport& report) const {
    if (options_.validation_images == 0) return;
    // Running statistics are those of the pictures that are learned from.
    backbone_.eval();
    ForwardContext context;
    const Classifier trained = {
        .logits_of = [&](const at::Tensor& pixels) { return Logits(pixels, context); },
        .side = static_cast<int>(side_)};
    const Score score =
        Evaluate(trained, options_.seed, Stream::kValidation, options_.validation_images);
    backbone_.train();
    report.validation_loss = score.loss;
    report.validation_accuracy = score.accuracy();
  }

  at::Tensor Logits(const at::Tensor& pixels, ForwardContext& context) const {
    const Autocast autocast(options_.bf16);
    return backbone_.forward(pixels, context).at(0).to(at::kFloat);
  }

  Backbone& backbone_;
  const TrainingOptions options_;
  const int64_t steps_per_epoch_, total_steps_;
  const Schedule schedule_;
  const int side_;
  BatchLoader loader_;
  std::optional<ExtentGuide> guide_;
  AdamW optimizer_;
  int64_t step_ = 0;
};

}  // namespace

void Train(Backbone& backbone, const TrainingOptions& options,
           const std::function<void(const StepReport&)>& on_step,
           const std::function<void(const EpochReport&)>& on_epoch) {
  TORCH_CHECK_VALUE(options.epochs > 0 && options.batch_size > 0,
                    "a training has at least one epoch and one image a batch");
  TORCH_CHECK_VALUE(backbone.info().num_classes == kNumShapes, "the pictures have ", kNumShapes,
                    " classes, the model has ", backbone.info().num_classes);
  backbone.train();
  Training(backbone, options).Run(on_step, on_epoch);
}

}  // namespace fovea::models::training
