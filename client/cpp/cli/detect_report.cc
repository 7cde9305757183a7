#include "client/cpp/cli/detect_report.h"

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/run_lengths.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/text.h"
#include "server/imaging/drawing/overlay.h"

namespace fovea::client {
namespace {

std::string ObjectText(const Detection& found) {
  const Box& box = found.box;
  return absl::StrFormat("  %s %s at (%.0f, %.0f) to (%.0f, %.0f)", Printable(LabelOf(found)),
                         Percent(found.score), box.left, box.top, box.right, box.bottom);
}

absl::StatusOr<RgbImage> Drawn(const RgbImage& picture, const ImageDetections& found) {
  std::vector<DrawnObject> objects;
  for (const Detection& one : found.detections) {
    objects.push_back({one.box.left,
                       one.box.top,
                       one.box.right,
                       one.box.bottom,
                       one.score,
                       one.class_index,
                       one.label,
                       {}});
    if (!one.mask) continue;
    auto runs = ReadRunLengths(one.mask->run_lengths, int64_t{picture.height} * picture.width);
    if (!runs) return absl::InternalError("not drawn: a mask of the server's does not fit");
    objects.back().mask = *std::move(runs);
  }
  return DrawObjects(picture, objects);
}

}  // namespace

DetectReport::DetectReport(const ModelId& model, const DetectOptions& options,
                           std::optional<size_t> files, const Console& console)
    : model_(model),
      options_(options),
      console_(console),
      tally_("searched", files, console),
      pictures_(options.output) {
  if (options_.json) console_.out << '[' << std::flush;
}

void DetectReport::Add(const AskedFile<DetectResponse>& file) {
  tally_.ClearProgress();
  absl::Status status = file.outcome.status();
  if (status.ok()) {
    const ImageDetections& found = file.outcome->images[0];
    untrained_ = untrained_ || file.outcome->untrained;
    if (options_.json) {
      if (const std::string lines = DetectedJson(file.path, found); !lines.empty()) {
        console_.out << (any_object_ ? ",\n" : "\n") << lines;
        any_object_ = true;
      }
    } else {
      console_.out << Printable(file.path) << ": " << Count(found.detections.size(), "object")
                   << '\n';
      for (const Detection& one : found.detections) console_.out << ObjectText(one) << '\n';
      if (options_.receipt) console_.out << "  " << ReceiptText(file.outcome->receipt) << '\n';
    }
    console_.out << std::flush;
    status = pictures_.Draw(file.path, file.image,
                            [&](const RgbImage& picture) { return Drawn(picture, found); });
  }
  tally_.Add(file.path, status);
}

ExitCode DetectReport::Finish(std::optional<size_t> files, bool interrupted) {
  tally_.ClearProgress();
  if (options_.json) {
    console_.out << "\n]\n";
  } else if (untrained_) {
    console_.out << "\nThe weights of " << Printable(model_.name)
                 << " are random numbers: its boxes mean nothing.\n";
  }
  console_.out << std::flush;
  return tally_.Finish(files, interrupted);
}

}  // namespace fovea::client
