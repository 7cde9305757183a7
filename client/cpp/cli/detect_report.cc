#include "client/cpp/cli/detect_report.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/text.h"
#include "server/imaging/decode.h"
#include "server/imaging/drawing/overlay.h"
#include "server/imaging/encode_png.h"
#include "server/imaging/probe.h"

namespace fovea::client {
namespace {

namespace fs = std::filesystem;

std::string ObjectText(const Detection& found) {
  const Box& box = found.box;
  return absl::StrFormat("  %s %s at (%.0f, %.0f) to (%.0f, %.0f)", Printable(LabelOf(found)),
                         Percent(found.score), box.left, box.top, box.right, box.bottom);
}

// The file's picture with the objects, as a PNG.
absl::StatusOr<std::string> Drawn(const std::string& file, const ImageDetections& found) {
  const Bytes encoded = std::as_bytes(std::span(file));
  const absl::StatusOr<ImageInfo> info = ProbeImage(encoded, {});
  if (!info.ok()) return info.status();
  const absl::StatusOr<RgbImage> picture = DecodeImage(encoded, *info);
  if (!picture.ok()) return picture.status();
  std::vector<DrawnObject> objects;
  for (const Detection& one : found.detections) {
    objects.push_back({one.box.left, one.box.top, one.box.right, one.box.bottom, one.score,
                       one.class_index, one.label});
  }
  return EncodePng(DrawObjects(*picture, objects));
}

absl::Status Write(const fs::path& path, const std::string& bytes) {
  std::ofstream stream(path, std::ios::binary);
  stream << bytes << std::flush;
  if (stream) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), " cannot be written: ", std::strerror(errno)));
}

}  // namespace

DetectReport::DetectReport(const ModelId& model, const DetectOptions& options,
                           std::optional<size_t> files, const Console& console)
    : model_(model), options_(options), console_(console), tally_("detected in", files, console) {
  if (options_.json) console_.out << '[' << std::flush;
}

absl::StatusOr<fs::path> DetectReport::PictureOf(const std::string& path) {
  const fs::path output = options_.output;
  if (output.extension() == ".png" && !fs::is_directory(output)) {
    if (pictures_.insert(output).second) return output;
    return absl::InvalidArgumentError(
        absl::StrCat("not drawn: ", output.string(), " is another image's; name a folder"));
  }
  const std::string stem = path == "-" ? "stdin" : fs::path(path).stem().string();
  fs::path picture = output / (stem + ".png");
  for (int i = 2; !pictures_.insert(picture).second; ++i) {
    picture = output / absl::StrCat(stem, "_", i, ".png");
  }
  return picture;
}

absl::Status DetectReport::Draw(const AskedFile<DetectResponse>& file) {
  const absl::StatusOr<fs::path> picture = PictureOf(file.path);
  if (!picture.ok()) return picture.status();
  std::error_code ignored;  // what cannot be made cannot be written to either
  if (picture->has_parent_path()) fs::create_directories(picture->parent_path(), ignored);
  const absl::StatusOr<std::string> drawn = Drawn(file.image, file.outcome->images[0]);
  if (!drawn.ok()) return drawn.status();
  return Write(*picture, *drawn);
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
    if (!options_.output.empty()) status = Draw(file);
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
