#include "server/compare/measure/loaded_variant.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "model_zoo/costs/operation_counter.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"
#include "server/compare/model_pixels.h"
#include "server/executor/intra_op_threads.h"
#include "server/executor/torch_status.h"
#include "server/pipeline/model_options.h"
#include "server/pipeline/model_view.h"

namespace fovea {
namespace {

// Keeps what the last block gave, and does all that there may be to do, which is counted; stops
// where nobody waits for it any more.
class FeatureContext final : public models::ForwardContext {
 public:
  FeatureContext(const Cancellation& cancellation, Clock& clock, Nanos until)
      : cancellation_(cancellation), clock_(clock), until_(until) {}

  bool ShouldStop() override { return !Wanted().ok(); }
  absl::Status Wanted() const {
    if (cancellation_.Cancelled()) return Cancelled("compare.cancelled", "the caller has gone");
    if (until_ == kNever || clock_.Now() < until_) return absl::OkStatus();
    return DeadlineExceeded("compare.pass_too_long", "a pass takes too long");
  }
  bool Recording() const override { return true; }
  bool Fullest() const override { return true; }
  void Record(std::string_view layer, std::string_view name, const at::Tensor& tensor) override {
    if (name == "output" && !layer.ends_with(".attn") && !layer.ends_with(".mlp")) {
      features_ = tensor;
    }
  }

  std::vector<float> features() const {
    if (!features_.defined()) return {};
    const at::Tensor numbers = features_.to(at::kFloat).contiguous();
    const float* data = numbers.const_data_ptr<float>();
    return {data, data + numbers.numel()};
  }

 private:
  const Cancellation& cancellation_;
  Clock& clock_;
  const Nanos until_;
  at::Tensor features_;
};

// What is asked of a pass in turn, and once to compare what is found.
RequestOptions OptionsFor(const ModelView& model, bool every) {
  switch (model.task) {
    case VisionTask::kDetection: {
      const bool masks = std::any_of(model.outputs.begin(), model.outputs.end(),
                                     [](const auto& output) { return output.name == "masks"; });
      return DetectOptions{.masks = masks && every ? MaskFormat::kRunLengths : MaskFormat::kNone};
    }
    case VisionTask::kSegmentation:
      return SegmentOptions{.format = every ? MapFormat::kRunLengths : MapFormat::kPng};
    case VisionTask::kClassification:
      break;
  }
  const int usual = static_cast<int>(std::min<int64_t>(5, model.num_classes));
  return ClassifyOptions{.top_k = every ? static_cast<int>(model.num_classes) : usual};
}

// Of a batch that is one image, repeated.
void KeepFirst(LoadedVariant::Pass& pass) {
  for (OutputTensor& output : pass.result.outputs) {
    output.data.resize(output.data.size() / static_cast<size_t>(output.shape.at(0)));
    output.shape[0] = 1;
  }
  pass.transforms.resize(1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedVariant>> LoadedVariant::Load(
    const SourceModel& model, const LoadedVariantOptions& options,
    const ServedModel::Environment& environment, CancellationPtr cancellation) {
  FOVEA_CHECK(!options.sizes.empty());
  FOVEA_ASSIGN_OR_RETURN(VariantSource opened,
                         OpenVariantSource(model, options.attention, std::move(cancellation)));
  VersionToLoad& source = opened.version;
  models::ModelDescription& description = source.spec.description;
  std::vector<ImageSize> sizes = model.view->sizes;
  if (options.size) {
    sizes = {{options.size->height, options.size->width}};
    // Of pictures that keep their shape: as large as that size holds.
    source.spec.preprocessing.shorter_side = source.spec.preprocessing.longer_side = 0;
  }
  if (options.precision) description.precision = *options.precision;
  description.image_height = sizes[options.sizes.front()].height;
  description.image_width = sizes[options.sizes.front()].width;
  description.further_sizes.clear();
  for (size_t i = 1; i < options.sizes.size(); ++i) {
    const ImageSize& size = sizes[options.sizes[i]];
    description.further_sizes.push_back({size.height, size.width});
  }
  source.spec.max_batch_size = options.batch_size;

  std::unique_ptr<LoadedVariant> variant(
      new LoadedVariant(std::move(source), options, environment.clock));
  const VersionToLoad& loaded = variant->source_;
  variant->weights_ = std::move(opened.weights);
  FOVEA_ASSIGN_OR_RETURN(LaneArrangement arrangement, ArrangementOf(loaded, environment));
  arrangement.lanes = 1;
  if (arrangement.gpus.empty()) arrangement.threads_per_batch = {options.threads};
  variant->threads_ = arrangement.threads_per_batch.front();
  FOVEA_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<LaneDevice>> devices,
                         DevicesOf(arrangement, environment));
  BatchExecutorOptions executor = ExecutorOptions(loaded, arrangement, environment);
  executor.max_device_bytes = std::min(executor.max_device_bytes, options.max_bytes);
  executor.only_full_batches = true;
  executor.give_up_at = options.give_up_at;
  const auto warm_up = [&slowest = variant->warm_up_time_](const BatchSize&, Nanos took) {
    slowest = std::max(slowest, took);
  };
  auto created =
      BatchExecutor::Create(executor, std::move(devices.front()), environment.clock, warm_up);
  if (ReasonOf(created.status()) == "model.too_large") {
    return ResourceExhausted(
        "compare.too_large",
        absl::StrCat("the weights of ", loaded.name, " and a batch of ", options.batch_size,
                     " do not fit in the memory that experiments may hold "
                     "(--experiment-memory), or that is free"));
  }
  if (!created.ok()) return created.status();
  variant->executor_ = *std::move(created);
  ModelView view =
      DescribeServedModel(loaded, variant->info(), variant->executor_->device().name());
  view.labels = model.view->labels;
  view.longest_label = model.view->longest_label;
  variant->view_ = std::make_shared<const ModelView>(std::move(view));
  variant->postprocessor_ = Postprocessor::Create(variant->view_);
  return variant;
}

int64_t LoadedVariant::held_bytes() const {
  // What its passes hold is kept from one to the next (kernels/memory).
  return weight_bytes() + executor_->peak_activation_bytes();
}

PreprocessSpec LoadedVariant::imaging_spec() const {
  return ImagingSpec(info(), executor_->preprocessing());
}

uint64_t LoadedVariant::ShapeKey(const ResizedImage& image) const {
  const auto place = std::find(options_.sizes.begin(), options_.sizes.end(), image.size);
  FOVEA_CHECK(place != options_.sizes.end());
  return static_cast<uint64_t>(place - options_.sizes.begin());
}

absl::StatusOr<LoadedVariant::Pass> LoadedVariant::Run(const ResizedImage& image, Nanos deadline,
                                                       AttentionMode mode) {
  Pass pass;
  pass.transforms.assign(options_.batch_size, image.transform);
  absl::Status status;
  auto request = std::make_unique<InferenceRequest>();
  request->stages = StageTimes(clock_.Now());
  request->cancellation = source_.cancellation;
  request->deadline = deadline;
  std::vector<std::unique_ptr<InferenceTask>> tasks;
  tasks.push_back(std::make_unique<InferenceTask>(
      std::move(request),
      DecodedPixels{std::vector<ResizedImage>(static_cast<size_t>(options_.batch_size), image)},
      BatchSize{.images = options_.batch_size, .shape_key = ShapeKey(image), .threads = threads_},
      /*priority=*/0, [&](std::unique_ptr<InferenceTask> task, absl::StatusOr<TaskResult> result) {
        pass.compute = task->request().stages[Stage::kCompute];
        status = result.status();
        if (result.ok()) pass.result = *std::move(result);
      }));
  executor_->device().EnterThread();
  const models::AttentionTime attention(mode);
  executor_->Run(/*instance=*/0, threads_, std::move(tasks), /*observer=*/nullptr);
  FOVEA_RETURN_IF_ERROR(status);
  pass.peak_bytes = pass.result.batch_peak_bytes;
  if (!pass.result.device_times) {
    if (attention.total()) pass.attention = Nanos{attention.total()->count()};
    pass.folds_attention = attention.folded();
  }
  return pass;
}

absl::StatusOr<LoadedVariant::Pass> LoadedVariant::RunOn(HeldLane& lane, const ResizedImage& image,
                                                         Nanos max_pass, AttentionMode mode) {
  if (warm_up_time_ > max_pass) {
    return DeadlineExceeded("compare.too_slow", "the warm-up took longer than a pass may");
  }
  absl::StatusOr<Pass> pass = Pass();
  FOVEA_RETURN_IF_ERROR(lane.Run(source_.cancellation, [&] {
    pass = Run(image, max_pass == kNever ? kNever : clock_.Now() + max_pass, mode);
  }));
  return pass;
}

absl::StatusOr<Results> LoadedVariant::Finish(Pass pass, bool every) const {
  if (pass.result.finish) {
    FOVEA_ASSIGN_OR_RETURN(pass.result.outputs, std::move(pass.result.finish)());
  }
  if (every) KeepFirst(pass);
  return postprocessor_->Process(OptionsFor(*view_, every), std::move(pass.result.outputs),
                                 pass.transforms);
}

absl::StatusOr<LoadedVariant::Analysis> LoadedVariant::Analyse(
    const std::vector<ResizedImage>& images, HeldLane& lane, Nanos max_pass) const {
  const size_t count = std::min(images.size(), kFeatureImages);
  Analysis analysis;
  analysis.features.resize(count);
  for (size_t size = 0; size < options_.sizes.size(); ++size) {
    // Unprepared, a model runs at its own size alone.
    models::ModelDescription description = source_.spec.description;
    const models::ImageSize input = info().sizes()[size];
    description.image_height = input.height;
    description.image_width = input.width;
    description.further_sizes.clear();
    std::unique_ptr<models::Model> model;
    FOVEA_RETURN_IF_ERROR(RunTorchLoad("model.load_failed", [&] {
      IntraOpThreads::UseOne();
      model = models::LoadModel(description);
    }));
    for (size_t i = 0; i < count; ++i) {
      if (ShapeKey(images[i]) != size) continue;
      absl::Status ran, wanted;
      const auto pass = [&] {
        ran = RunTorch("executor.failed", [&] {
          executor_->device().EnterThread();
          FeatureContext context(*source_.cancellation, clock_,
                                 max_pass == kNever ? kNever : clock_.Now() + max_pass);
          const at::Tensor pixels =
              ModelPixels(images[i], info(), input, executor_->preprocessing());
          const models::OperationCounter counter;
          model->Run(pixels, context);
          if (i == 0) analysis.multiply_adds = counter.multiply_adds();
          analysis.features[i] = context.features();
          wanted = context.Wanted();
        });
      };
      FOVEA_RETURN_IF_ERROR(lane.Run(source_.cancellation, pass));
      FOVEA_RETURN_IF_ERROR(ran);
      FOVEA_RETURN_IF_ERROR(wanted);
    }
  }
  return analysis;
}

}  // namespace fovea
