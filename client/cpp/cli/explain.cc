#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/explanation_json.h"
#include "client/cpp/cli/explanation_text.h"
#include "client/cpp/cli/files.h"
#include "client/cpp/cli/interruption.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<ExplainRequest::Place> ParsePlace(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  ExplainRequest::Place place;
  if (parts.size() == 2 && absl::SimpleAtof(parts[0], &place.x) &&
      absl::SimpleAtof(parts[1], &place.y)) {
    return place;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no place in an image: write X,Y in pixels"));
}

absl::StatusOr<ExplainRequest> RequestOf(const ExplainOptions& options) {
  ExplainRequest request{.variant = {.attention = options.attention},
                         .methods = options.methods,
                         .layers = options.layers,
                         .heads = options.heads,
                         .every_head = options.every_head,
                         .target_class = options.target_class,
                         .form = options.output.empty() ? PictureForm::kNone
                                 : options.heat         ? PictureForm::kHeat
                                                        : PictureForm::kOverlay};
  const auto model = ParseModel(options.model);
  if (!model.ok()) return model.status();
  request.variant.model = *model;
  if (request.methods.empty()) {
    request.methods = {ExplainMethod::kMaps, ExplainMethod::kMeasures};
  }
  if (!options.place.empty()) {
    const auto place = ParsePlace(options.place);
    if (!place.ok()) return place.status();
    request.place = *place;
  }
  return request;
}

// Those of the maps, in their order, and then that of the measures.
absl::StatusOr<std::vector<std::string>> WritePictures(const Explanation& explanation,
                                                       const ExplainOptions& options) {
  const fs::path folder = options.output;
  std::vector<std::string> files;
  if (folder.empty()) return files;
  std::error_code ignored;  // what cannot be made cannot be written to either
  fs::create_directories(folder, ignored);
  const std::string prefix = PicturePrefix(explanation, options.image, options.place);
  const auto write = [&](const std::string& name, const std::string& png) {
    files.push_back((folder / (prefix + name)).string());
    return WriteFile(files.back(), png);
  };
  for (const ExplainedMap& map : explanation.maps) {
    if (absl::Status status = write(PictureName(map), map.png); !status.ok()) return status;
  }
  if (!explanation.measures_plot.empty()) {
    const absl::Status status = write(kMeasuresPicture, explanation.measures_plot);
    if (!status.ok()) return status;
  }
  return files;
}

}  // namespace

ExitCode RunExplain(Client& client, const ExplainOptions& options, const Console& console) {
  auto request = RequestOf(options);
  if (!request.ok()) return ReportUsage(console, std::string(request.status().message()));
  const Interruption interruption([&] { client.Stop(); });
  auto image = ReadFile(options.image, interruption.descriptor());
  if (!image.ok()) return Report(console, image.status(), options.image);
  request->image = *std::move(image);
  const auto explanation = client.Explain(*request, options.call);
  if (!explanation.ok()) {
    if (interruption.happened()) return kInterrupted;
    return Report(console,
                  WhyNotReady(client, request->variant.model, explanation.status(), options.call));
  }
  const auto files = WritePictures(*explanation, options);
  if (!files.ok()) return Report(console, files.status());
  if (options.json) {
    console.out << ExplanationJson(*explanation, options.image, *files) << '\n';
  } else {
    PrintExplanation(*explanation, *files, console.out, console.colour);
  }
  return kOk;
}

}  // namespace fovea::client
