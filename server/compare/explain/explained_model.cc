#include "server/compare/explain/explained_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model_zoo/explain/explanation.h"
#include "model_zoo/registry/load.h"
#include "server/compare/model_pixels.h"
#include "server/core/caller_cancelled.h"
#include "server/executor/intra_op_threads.h"
#include "server/executor/torch_status.h"

namespace fovea {
namespace {

std::vector<double> NumbersOf(const at::Tensor& tensor) {
  const at::Tensor numbers = tensor.detach().to(at::kDouble).contiguous().flatten();
  const double* data = numbers.const_data_ptr<double>();
  return {data, data + numbers.numel()};
}

PatchMap FromZoo(const models::PatchWeights& map) {
  const std::vector<double> numbers = NumbersOf(map.weights);
  return {.layer = map.layer,
          .heads = map.weights.size(0),
          .rows = map.weights.size(1),
          .columns = map.weights.size(2),
          .values = std::vector<float>(numbers.begin(), numbers.end())};
}

std::optional<PatchMap> FromZoo(const std::optional<models::PatchWeights>& map) {
  return map ? std::optional(FromZoo(*map)) : std::nullopt;
}

// Of the one image.
double Number(const at::Tensor& measure) { return measure.item<double>(); }

MeasuredLayer FromZoo(const models::LayerMeasures& layer) {
  MeasuredLayer measured{.layer = layer.layer,
                         .cosine_similarity = Number(layer.cosine_similarity),
                         .attention_norm_ratio = Number(layer.attention_norm_ratio),
                         .mlp_norm_ratio = Number(layer.mlp_norm_ratio)};
  if (layer.attention_standard_deviation.defined()) {
    measured.attention_standard_deviation = Number(layer.attention_standard_deviation);
    measured.nonlocality = NumbersOf(layer.nonlocality);
  }
  return measured;
}

bool Asks(const ExplainRequest& request, ExplainMethod method) {
  return std::find(request.methods.begin(), request.methods.end(), method) != request.methods.end();
}

models::ExplainOptions OptionsOf(const ExplainRequest& request, const ImageTransform& seen,
                                 int64_t max_bytes, std::function<bool()> stop) {
  models::ExplainOptions options{.maps = Asks(request, ExplainMethod::kMaps),
                                 .rollout = Asks(request, ExplainMethod::kRollout),
                                 .attribution = Asks(request, ExplainMethod::kAttribution),
                                 .gradient_rollout = Asks(request, ExplainMethod::kGradientRollout),
                                 .measures = Asks(request, ExplainMethod::kMeasures),
                                 .max_bytes = max_bytes,
                                 .stop = std::move(stop)};
  if (request.place) {
    options.place = {seen.InputY(request.place->y) / static_cast<double>(seen.input_height),
                     seen.InputX(request.place->x) / static_cast<double>(seen.input_width)};
  }
  if (request.target_class) options.target = *request.target_class;
  return options;
}

}  // namespace

struct ExplainedModel::Zoo {
  std::shared_ptr<models::Backbone> backbone;
  models::Preprocessing preprocessing;
};

std::vector<float> PatchMap::Head(std::optional<int64_t> head) const {
  const auto size = static_cast<size_t>(rows * columns);
  const auto one = [&](int64_t number) {
    return values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(number) * size);
  };
  if (head) return {one(*head), one(*head + 1)};
  std::vector<float> mean(size);
  for (size_t i = 0; i < size; ++i) {
    double sum = 0;
    for (int64_t h = 0; h < heads; ++h) sum += double{one(h)[static_cast<std::ptrdiff_t>(i)]};
    mean[i] = static_cast<float>(sum / static_cast<double>(heads));
  }
  return mean;
}

ExplainedModel::ExplainedModel() = default;
ExplainedModel::~ExplainedModel() = default;

absl::StatusOr<std::unique_ptr<ExplainedModel>> ExplainedModel::Load(const SourceModel& of,
                                                                     const std::string& attention,
                                                                     const ImageSize& size,
                                                                     CancellationPtr cancellation) {
  std::unique_ptr<ExplainedModel> model(new ExplainedModel());
  FOVEA_ASSIGN_OR_RETURN(model->source_, OpenVariantSource(of, attention, std::move(cancellation)));
  models::ModelDescription& description = model->source_.version.spec.description;
  description.image_height = size.height;
  description.image_width = size.width;
  description.further_sizes.clear();
  model->zoo_ = std::make_unique<Zoo>();
  FOVEA_RETURN_IF_ERROR(RunTorchLoad("model.load_failed", [&] {
    IntraOpThreads::UseOne();
    std::shared_ptr<models::Backbone> backbone = models::LoadBackbone(description);
    backbone->eval();
    const models::ModelInfo& info = backbone->info();
    model->attention_ = info.attention;
    model->zoo_->preprocessing =
        model->source_.version.spec.preprocessing.AppliedTo(info.preprocessing);
    model->zoo_->backbone = std::move(backbone);
  }));
  return model;
}

absl::StatusOr<ExplainedPass> ExplainedModel::Run(const ResizedImage& image,
                                                  const ExplainRequest& request, int64_t max_bytes,
                                                  int threads, HeldLane& lane) const {
  absl::StatusOr<ExplainedPass> pass = ExplainedPass();
  FOVEA_RETURN_IF_ERROR(lane.RunInParts(source_.version.cancellation, [&](HeldLane::Parts& parts) {
    pass = RunInParts(image, request, max_bytes, threads, parts);
    return absl::OkStatus();
  }));
  return pass;
}

absl::StatusOr<ExplainedPass> ExplainedModel::RunInParts(const ResizedImage& image,
                                                         const ExplainRequest& request,
                                                         int64_t max_bytes, int threads,
                                                         HeldLane::Parts& parts) const {
  using Refusal = models::Explanation::Refusal;
  const int per_batch[] = {threads};
  const IntraOpThreads helpers(per_batch, /*instances=*/1);
  helpers.Enter();
  const absl::Cleanup leave = [] { IntraOpThreads::Leave(); };
  absl::Status turn;
  const auto stop = [&] {
    if (!turn.ok() || source_.version.cancellation->Cancelled()) return true;
    if (!parts.AreOthersDue()) return false;
    IntraOpThreads::Release();
    turn = parts.Next();
    helpers.Enter();
    return !turn.ok();
  };
  ExplainedPass pass;
  Refusal refusal = Refusal::kNone;
  std::string why;
  FOVEA_RETURN_IF_ERROR(RunTorch("executor.failed", [&] {
    const models::ModelInfo& info = zoo_->backbone->info();
    const at::Tensor pixels =
        ModelPixels(image, info, {info.image_height, info.image_width}, zoo_->preprocessing);
    const models::Explanation explanation = models::Explain(
        *zoo_->backbone, pixels, OptionsOf(request, image.transform, max_bytes, stop));
    refusal = explanation.refusal;
    why = explanation.why;
    for (const models::PatchWeights& map : explanation.maps) pass.maps.push_back(FromZoo(map));
    pass.rollout = FromZoo(explanation.rollout);
    pass.attribution = FromZoo(explanation.attribution);
    pass.gradient_rollout = FromZoo(explanation.gradient_rollout);
    for (const models::LayerMeasures& layer : explanation.measures) {
      pass.measures.push_back(FromZoo(layer));
    }
    if (explanation.target) pass.target_class = static_cast<int>(*explanation.target);
    pass.probability = explanation.probability;
  }));
  switch (refusal) {
    case Refusal::kStopped:
      if (!turn.ok() && !absl::IsCancelled(turn)) return turn;
      return CallerCancelled("explain");
    case Refusal::kTooLarge:
      return ResourceExhausted("explain.too_large",
                               absl::StrCat(why, ", more than the ", max_bytes >> 20,
                                            " MiB that an experiment may hold "
                                            "(--experiment-memory)"));
    case Refusal::kUnfit:
      return FailedPrecondition("explain.unfit", why);
    case Refusal::kNone:
      break;
  }
  return pass;
}

}  // namespace fovea
