#include "server/compare/explain/drawn_explanation.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/caller_cancelled.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/drawing/heat.h"
#include "server/imaging/drawing/line_charts.h"
#include "server/imaging/encode_png.h"

namespace fovea {
namespace {

absl::Status NoWeights(const std::string& model) {
  return FailedPrecondition("explain.unfit",
                            absl::StrCat(model, " has no layer with attention weights"));
}

absl::Status TooMany(std::string_view what) {
  return InvalidArgument("explain.too_many",
                         absl::StrCat("an answer has no more than ", std::string(what),
                                      ": ask for fewer layers or heads, or for no pictures"));
}

ExplainedMap Told(ExplainMethod method, const PatchMap& map, std::optional<int> head) {
  return {.method = method,
          .layer = map.layer,
          .head = head,
          .rows = static_cast<int>(map.rows),
          .columns = static_cast<int>(map.columns),
          .values = map.Head(head)};
}

std::vector<int> Counted(size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Of the layers' own weights.
absl::Status AddLayers(const ExplainRequest& request, const std::string& model,
                       const ExplainedPass& pass, std::vector<ExplainedMap>* maps) {
  if (pass.maps.empty()) return NoWeights(model);
  const std::vector<int> layers =
      request.layers.empty() ? Counted(pass.maps.size()) : request.layers;
  for (const int layer : layers) {
    if (layer >= static_cast<int>(pass.maps.size())) {
      return InvalidArgument(
          "explain.no_layer",
          absl::StrCat("there is no layer ", layer, ": ", model, " has ", pass.maps.size(),
                       " with attention weights, counted from 0"));
    }
    const PatchMap& map = pass.maps[layer];
    std::vector<std::optional<int>> heads = {std::nullopt};
    if (request.every_head || !request.heads.empty()) {
      const std::vector<int> wanted =
          request.every_head ? Counted(static_cast<size_t>(map.heads)) : request.heads;
      heads.assign(wanted.begin(), wanted.end());
    }
    for (const std::optional<int> head : heads) {
      if (head && *head >= map.heads) {
        return InvalidArgument("explain.no_head",
                               absl::StrCat("there is no head ", *head, ": ", map.layer, " has ",
                                            map.heads, ", counted from 0"));
      }
      if (static_cast<int64_t>(maps->size()) >= limits::kMaxExplainedMaps) {
        return TooMany(absl::StrCat(limits::kMaxExplainedMaps, " maps"));
      }
      maps->push_back(Told(ExplainMethod::kMaps, map, head));
      maps->back().layer_number = layer;
    }
  }
  return absl::OkStatus();
}

double Mean(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

}  // namespace

absl::StatusOr<std::vector<ExplainedMap>> ChooseMaps(const ExplainRequest& request,
                                                     const std::string& model,
                                                     const ExplainedPass& pass) {
  std::vector<ExplainedMap> maps;
  std::vector<ExplainMethod> done;
  for (const ExplainMethod method : request.methods) {
    if (std::find(done.begin(), done.end(), method) != done.end()) continue;
    done.push_back(method);
    switch (method) {
      case ExplainMethod::kMaps:
        FOVEA_RETURN_IF_ERROR(AddLayers(request, model, pass, &maps));
        break;
      case ExplainMethod::kRollout:
        maps.push_back(Told(method, *pass.rollout, std::nullopt));
        break;
      case ExplainMethod::kAttribution:
        maps.push_back(Told(method, *pass.attribution, std::nullopt));
        break;
      case ExplainMethod::kGradientRollout:
        maps.push_back(Told(method, *pass.gradient_rollout, std::nullopt));
        break;
      case ExplainMethod::kMeasures:
        if (pass.measures.empty()) return NoWeights(model);
        break;
    }
  }
  return maps;
}

absl::Status CheckPictures(PictureForm form, const Explanation& explanation) {
  if (form == PictureForm::kNone) return absl::OkStatus();
  const int64_t pixels = explanation.image.height * explanation.image.width *
                         static_cast<int64_t>(explanation.maps.size());
  if (pixels <= limits::kMaxExplainedPixels) return absl::OkStatus();
  return TooMany(absl::StrCat(limits::kMaxExplainedPixels, " pixels in all its pictures, and ",
                              explanation.maps.size(), " of this image have ", pixels));
}

int64_t PictureBytes(const ImageSize& image) { return HeatBytes(image.height, image.width); }

absl::Status DrawMaps(const RgbImage& image, const ImageTransform& seen,
                      const ExplainRequest& request, const CancellationPtr& cancellation,
                      Explanation* explanation) {
  const bool overlay = request.form == PictureForm::kOverlay;
  for (ExplainedMap& map : explanation->maps) {
    if (cancellation->Cancelled()) {
      return CallerCancelled("explain");
    }
    RgbImage drawn;
    FOVEA_RETURN_IF_ERROR(RunCodec([&]() -> std::string {
      drawn =
          DrawHeat(image, seen, {.values = map.values, .rows = map.rows, .columns = map.columns},
                   overlay ? HeatForm::kOverlay : HeatForm::kAlone);
      if (overlay && request.place) MarkPlace(drawn, request.place->x, request.place->y);
      return {};
    }));
    FOVEA_ASSIGN_OR_RETURN(map.png, EncodePng(drawn));
  }
  return absl::OkStatus();
}

// "shapes/1, knn:k=9 over weights of dense".
std::string Heading(const Explanation& explanation) {
  std::string heading =
      absl::StrCat(explanation.model_name, "/", explanation.model_version, ", ",
                   explanation.attention.empty() ? explanation.backbone : explanation.attention);
  if (!explanation.weights_of_attention.empty()) {
    absl::StrAppend(&heading, " over weights of ", explanation.weights_of_attention);
  }
  return heading;
}

absl::Status DrawMeasures(Explanation* explanation) {
  if (explanation->measures.empty()) return absl::OkStatus();
  LineChart cosine{.title = "cosine similarity of tokens", .lines = {{}}};
  LineChart deviation{.title = "standard deviation of weights", .lines = {{}}};
  LineChart ratio{.title = "norm ratio", .lines = {{.name = "attention"}, {.name = "MLP"}}};
  LineChart distance{.title = "non-locality (patches, mean of heads)", .lines = {{}}};
  for (const MeasuredLayer& layer : explanation->measures) {
    cosine.lines[0].values.push_back(layer.cosine_similarity);
    deviation.lines[0].values.push_back(layer.attention_standard_deviation);
    ratio.lines[0].values.push_back(layer.attention_norm_ratio);
    ratio.lines[1].values.push_back(layer.mlp_norm_ratio);
    distance.lines[0].values.push_back(
        layer.nonlocality.empty() ? std::nullopt : std::optional(Mean(layer.nonlocality)));
  }
  RgbImage drawn;
  FOVEA_RETURN_IF_ERROR(RunCodec([&]() -> std::string {
    drawn = DrawLineCharts({cosine, deviation, ratio, distance}, "layer", Heading(*explanation));
    return {};
  }));
  FOVEA_ASSIGN_OR_RETURN(explanation->measures_plot, EncodePng(drawn));
  return absl::OkStatus();
}

}  // namespace fovea
