#include "server/compare/explain/explainer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/compare/explain/drawn_explanation.h"
#include "server/compare/explain/explained_model.h"
#include "server/compare/variant_source.h"
#include "server/imaging/preprocess.h"
#include "server/pipeline/imaging_order.h"

namespace fovea {
namespace {

constexpr char kBadRequest[] = "explain.bad_request";

bool FollowsAClass(ExplainMethod method) {
  return method == ExplainMethod::kAttribution || method == ExplainMethod::kGradientRollout;
}

absl::Status CheckNumbers(std::string_view what, const std::vector<int>& numbers) {
  if (static_cast<int64_t>(numbers.size()) > limits::kMaxExplainedMaps) {
    return InvalidArgument(kBadRequest, absl::StrCat("more than ", limits::kMaxExplainedMaps, " ",
                                                     std::string(what), "s"));
  }
  for (const int number : numbers) {
    if (number < 0) {
      return InvalidArgument(kBadRequest, absl::StrCat("there is no ", std::string(what), " ",
                                                       number, ": they are counted from 0"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const ExplainRequest& request) {
  if (request.methods.empty()) {
    return InvalidArgument(kBadRequest,
                           "no method is asked for: maps, rollout, attribution, gradient rollout "
                           "or measures");
  }
  FOVEA_RETURN_IF_ERROR(CheckNumbers("layer", request.layers));
  FOVEA_RETURN_IF_ERROR(CheckNumbers("head", request.heads));
  if (request.every_head && !request.heads.empty()) {
    return InvalidArgument(kBadRequest, "either some heads are asked for or every head");
  }
  return absl::OkStatus();
}

// What can be said before the model runs.
absl::Status CheckTarget(const ExplainRequest& request, const ModelView& model) {
  if (!request.target_class) return absl::OkStatus();
  const int target = *request.target_class;
  if (model.task != VisionTask::kClassification || target < 0 || target >= model.num_classes) {
    return InvalidArgument("explain.no_class", absl::StrCat(model.name, " has no class ", target));
  }
  if (std::none_of(request.methods.begin(), request.methods.end(), FollowsAClass)) {
    return InvalidArgument(kBadRequest,
                           "a class is given, and no method that follows one: attribution or "
                           "gradient rollout");
  }
  return absl::OkStatus();
}

absl::Status CheckPlace(const ExplainRequest& request, const ImageTransform& seen) {
  if (!request.place) return absl::OkStatus();
  const double x = seen.InputX(request.place->x), y = seen.InputY(request.place->y);
  const bool inside = x >= 0 && x < static_cast<double>(seen.width) && y >= 0 &&
                      y < static_cast<double>(seen.height);  // false of what is no number
  if (inside) return absl::OkStatus();
  return InvalidArgument(
      "explain.no_place",
      absl::StrCat("the place does not lie in what the model sees of the image: pixels ",
                   std::lround(seen.SourceX(0)), " to ",
                   std::lround(seen.SourceX(static_cast<double>(seen.width))),
                   " from the left and ", std::lround(seen.SourceY(0)), " to ",
                   std::lround(seen.SourceY(static_cast<double>(seen.height))), " from above"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Explainer>> Explainer::Create(
    const ExplainerOptions& options, const ModelCatalog& catalog,
    const ServedModel::Environment& environment, HeldLane& lane) {
  std::unique_ptr<Explainer> explainer(new Explainer(options, catalog, environment, lane));
  FOVEA_ASSIGN_OR_RETURN(explainer->line_,
                         ExperimentLine::Create({.name = "explain",
                                                 .what = "explanations",
                                                 .max_waiting = options.max_waiting,
                                                 .waiting_memory = options.waiting_memory}));
  return explainer;
}

void Explainer::Explain(ExplainRequest request, CancellationPtr cancellation, Done done) {
  if (absl::Status refused = CheckRequest(request); !refused.ok()) return done(std::move(refused));
  const auto asked = std::make_shared<const ExplainRequest>(std::move(request));
  line_->AddFor<Explanation>(
      cancellation, static_cast<int64_t>(asked->image.size()), /*wait=*/nullptr,
      [this, asked, cancellation] { return Run(*asked, cancellation); }, std::move(done));
}

absl::StatusOr<Explanation> Explainer::Run(const ExplainRequest& request,
                                           const CancellationPtr& cancellation) {
  FOVEA_ASSIGN_OR_RETURN(const SourceModel source, FindSource(catalog_, request.variant));
  const ModelView& view = *source.view;
  FOVEA_RETURN_IF_ERROR(CheckTarget(request, view));

  const ScatteredBytes file(std::as_bytes(std::span(request.image)), /*owner=*/nullptr);
  const ImagingResources imaging{.budget = environment_.imaging.budget(),
                                 .clock = environment_.clock,
                                 .cancellation = cancellation};
  FOVEA_ASSIGN_OR_RETURN(
      const ResizedImage image,
      DecodeAndResize(file, source.preprocessing, ImagingOptionsOf(view), imaging));
  FOVEA_RETURN_IF_ERROR(CheckPlace(request, image.transform));

  const int64_t left = options_.max_bytes - BytesToLoad(source);
  if (left <= 0) {
    return ResourceExhausted(
        "explain.too_large",
        absl::StrCat("the weights of ", view.name, " hold more than the ", options_.max_bytes >> 20,
                     " MiB that an experiment may hold (--experiment-memory)"));
  }
  FOVEA_ASSIGN_OR_RETURN(const std::unique_ptr<ExplainedModel> model,
                         ExplainedModel::Load(source, request.variant.attention,
                                              view.sizes[image.size], cancellation));
  FOVEA_ASSIGN_OR_RETURN(ExplainedPass pass,
                         model->Run(image, request, left, environment_.device_threads, lane_));
  FOVEA_ASSIGN_OR_RETURN(std::vector<ExplainedMap> maps, ChooseMaps(request, view.name, pass));
  Explanation explanation{.id = request.id,
                          .model_name = view.name,
                          .model_version = view.version,
                          .backbone = view.backbone,
                          .attention = model->attention(),
                          .weights_of_attention = WeightsOfAttention(view, model->attention()),
                          .untrained = view.untrained,
                          .image = {image.transform.source_height, image.transform.source_width},
                          .maps = std::move(maps),
                          .measures = std::move(pass.measures)};
  if (pass.target_class) {
    const auto index = static_cast<size_t>(*pass.target_class);
    explanation.target =
        Explanation::Target{.class_index = *pass.target_class,
                            .label = index < view.labels->size() ? (*view.labels)[index] : "",
                            .probability = pass.probability};
  }
  FOVEA_RETURN_IF_ERROR(CheckPictures(request.form, explanation));
  if (request.form == PictureForm::kNone) return explanation;
  FOVEA_RETURN_IF_ERROR(DrawMeasures(&explanation));
  if (explanation.maps.empty()) return explanation;
  // Decoded once more: its memory is not held while the model waits for its turn. Whole, also where
  // the model has fast_decode: it is the caller's picture that is drawn on.
  FOVEA_ASSIGN_OR_RETURN(
      const DecodedImage upright,
      DecodeUpright(file, ImagingOptionsOf(view), imaging, [](const ImageInfo& info) {
        return PictureBytes({info.height, info.width});
      }));
  FOVEA_RETURN_IF_ERROR(
      DrawMaps(upright.pixels, image.transform, request, cancellation, &explanation));
  return explanation;
}

}  // namespace fovea
