#include "server/pipeline/draw_results.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/run_lengths.h"
#include "base/status.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/drawing/overlay.h"
#include "server/imaging/encode_png.h"

namespace fovea {
namespace {

// What people want to see where they do not say it: as the command line's default.
constexpr float kDrawnScore = 0.5F;

using Draw = std::function<RgbImage(const RgbImage& picture)>;

// What is to be drawn, and how many entries its legend has.
struct Plan {
  Draw draw;
  int64_t entries = 0;
  int64_t bytes_per_pixel = 0;  // of the picture, beside what drawing takes
};

Plan PlanFor(const std::vector<ClassScore>& scores) {
  std::vector<DrawnClass> classes;
  for (const ClassScore& score : scores) {
    classes.push_back({score.index, score.confidence, score.label});
  }
  const auto entries = static_cast<int64_t>(classes.size());
  return {[classes = std::move(classes)](const RgbImage& picture) {
            return DrawScores(picture, classes);
          },
          entries};
}

Plan PlanFor(const ImageDetections& found) {
  std::vector<DrawnObject> objects;
  for (const Detection& one : found.detections) {
    DrawnObject& object = objects.emplace_back();
    object.left = one.box.left;
    object.top = one.box.top;
    object.right = one.box.right;
    object.bottom = one.box.bottom;
    object.score = one.score;
    object.class_index = one.class_index;
    object.label = one.label;
    if (!one.mask) continue;
    auto runs = ReadRunLengths(one.mask->run_lengths, found.image.height * found.image.width);
    FOVEA_CHECK(runs.has_value());  // our own
    object.mask = *std::move(runs);
  }
  const auto entries = static_cast<int64_t>(objects.size());
  return {[objects = std::move(objects)](const RgbImage& picture) {
            return DrawObjects(picture, objects);
          },
          entries};
}

// [height, width], from run lengths that go down the columns.
std::vector<uint16_t> ClassMap(const ImageSegmentation& found) {
  const int64_t height = found.image.height, width = found.image.width;
  std::vector<uint16_t> map(height * width);
  for (const ClassArea& area : found.classes) {
    const auto runs = ReadRunLengths(area.run_lengths, height * width);
    FOVEA_CHECK(runs.has_value());  // our own
    int64_t at = 0;
    for (size_t run = 0; run < runs->size(); at += (*runs)[run++]) {
      if (run % 2 == 0) continue;
      for (int64_t i = at; i < at + (*runs)[run]; ++i) {
        map[i % height * width + i / height] = static_cast<uint16_t>(area.class_index);
      }
    }
  }
  return map;
}

Plan PlanFor(const ImageSegmentation& found) {
  return {[&found](const RgbImage& picture) {
            std::map<int, std::string> labels;
            for (const ClassArea& area : found.classes) labels[area.class_index] = area.label;
            return DrawClasses(picture, ClassMap(found), labels);
          },
          static_cast<int64_t>(found.classes.size()), sizeof(uint16_t)};
}

Plan PlanFor(const Results& results) {
  return std::visit(
      []<typename Kind>(const Kind& kind) -> Plan {
        if constexpr (std::is_same_v<Kind, TensorResults>) {
          FOVEA_CHECK(false);  // AskForDrawing
          return {};
        } else {
          return PlanFor(kind.front());
        }
      },
      results);
}

}  // namespace

absl::Status AskForDrawing(const ModelView& model, InferenceRequest* request) {
  const auto* images = std::get_if<ImageFiles>(&request->input);
  if (images == nullptr || images->files.size() != 1 ||
      std::holds_alternative<WantedTensors>(request->options)) {
    return InvalidArgument("request.drawing",
                           "results are drawn over one picture of a request, not over more");
  }
  if (auto* detect = std::get_if<DetectOptions>(&request->options)) {
    const bool has_masks = std::ranges::any_of(
        model.outputs, [](const TensorDescription& output) { return output.name == "masks"; });
    if (detect->score_threshold == 0) detect->score_threshold = kDrawnScore;
    detect->masks = has_masks ? MaskFormat::kRunLengths : MaskFormat::kNone;
  } else if (auto* segment = std::get_if<SegmentOptions>(&request->options)) {
    *segment = {.format = MapFormat::kRunLengths};
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DrawResults(InferenceRequest& request, const Results& results,
                                        const ImagingOptions& options,
                                        const ImagingResources& resources) {
  const Plan plan = PlanFor(results);
  const ScatteredBytes& file = std::get<ImageFiles>(request.input).files.front();
  // Whole, also where the model has fast_decode: it is the caller's picture that is drawn on.
  FOVEA_ASSIGN_OR_RETURN(const DecodedImage picture,
                         DecodeUpright(file, options, resources, [&](const ImageInfo& info) {
                           // Upright, it may be on its side.
                           return std::max(DrawingBytes(info.height, info.width, plan.entries),
                                           DrawingBytes(info.width, info.height, plan.entries)) +
                                  plan.bytes_per_pixel * info.pixels();
                         }));
  RgbImage drawn;
  FOVEA_RETURN_IF_ERROR(RunCodec([&]() -> std::string {
    drawn = plan.draw(picture.pixels);
    return {};
  }));
  FOVEA_ASSIGN_OR_RETURN(std::string png, EncodePng(drawn));
  FOVEA_RETURN_IF_ERROR(request.TakeMemory(static_cast<int64_t>(png.size())));
  return png;
}

}  // namespace fovea
