#include "client/cpp/cli/segment_report.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/text.h"
#include "server/imaging/drawing/overlay.h"

namespace fovea::client {
namespace {

std::string ClassesText(const ImageSegmentation& map) {
  const auto pixels = static_cast<double>(map.class_map.size());
  return absl::StrJoin(map.classes, ", ", [&](std::string* text, const ClassArea& area) {
    absl::StrAppend(text, Printable(LabelOf(area)), " ",
                    Percent(static_cast<double>(area.pixels) / pixels));
  });
}

absl::StatusOr<RgbImage> Drawn(const RgbImage& picture, const ImageSegmentation& map) {
  if (picture.height != map.image_height || picture.width != map.image_width) {
    return absl::InternalError("not drawn: the server's class map is of another size");
  }
  std::map<int, std::string> labels;
  for (const ClassArea& area : map.classes) labels[area.class_index] = area.label;
  return DrawClasses(picture, map.class_map, labels);
}

}  // namespace

SegmentReport::SegmentReport(const ModelId& model, const SegmentOptions& options,
                             std::optional<size_t> files, const Console& console)
    : model_(model),
      options_(options),
      console_(console),
      tally_("segmented", files, console),
      pictures_(options.output) {
  if (options_.json) console_.out << '[' << std::flush;
}

void SegmentReport::Add(const AskedFile<SegmentResponse>& file) {
  tally_.ClearProgress();
  absl::Status status = file.outcome.status();
  if (status.ok()) {
    const ImageSegmentation& map = file.outcome->images[0];
    untrained_ = untrained_ || file.outcome->untrained;
    if (options_.json) {
      console_.out << (any_class_ ? ",\n" : "\n") << SegmentedJson(file.path, map);
      any_class_ = true;
    } else {
      console_.out << Printable(file.path) << ": " << ClassesText(map) << '\n';
      if (options_.receipt) console_.out << "  " << ReceiptText(file.outcome->receipt) << '\n';
    }
    console_.out << std::flush;
    status = pictures_.Draw(file.path, file.image,
                            [&](const RgbImage& picture) { return Drawn(picture, map); });
  }
  tally_.Add(file.path, status);
}

ExitCode SegmentReport::Finish(std::optional<size_t> files, bool interrupted) {
  tally_.ClearProgress();
  if (options_.json) {
    console_.out << "\n]\n";
  } else if (untrained_) {
    console_.out << "\nThe weights of " << Printable(model_.name)
                 << " are random numbers: its classes mean nothing.\n";
  }
  console_.out << std::flush;
  return tally_.Finish(files, interrupted);
}

}  // namespace fovea::client
