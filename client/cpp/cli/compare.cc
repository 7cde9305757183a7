#include <string>
#include <utility>
#include <vector>

#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/comparison_report.h"
#include "client/cpp/cli/comparison_text.h"
#include "client/cpp/cli/experiment_progress.h"
#include "client/cpp/cli/files.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

// Each attention over each model; of one model and one attention, the model's own before it.
absl::StatusOr<std::vector<Variant>> VariantsOf(const CompareOptions& options) {
  std::vector<Variant> variants;
  for (const std::string& text : options.models) {
    auto model = ParseModel(text);
    if (!model.ok()) return model.status();
    if (options.attentions.size() <= 1) variants.push_back({.model = *model});
    for (const std::string& attention : options.attentions) {
      variants.push_back({.model = *model, .attention = attention});
    }
  }
  if (variants.size() < 2) {
    return absl::InvalidArgumentError(
        "there is nothing to compare: give two models or more, or an attention");
  }
  return variants;
}

}  // namespace

ExitCode RunCompare(Client& client, const CompareOptions& options, const Console& console) {
  auto variants = VariantsOf(options);
  if (!variants.ok()) return ReportUsage(console, std::string(variants.status().message()));
  CompareRequest request{.variants = *std::move(variants),
                         .rounds = options.rounds,
                         .max_rounds = options.max_rounds,
                         .max_time = options.max_time,
                         .batch_size = options.batch_size,
                         .threads = options.threads};
  std::vector<std::string> paths;
  for (const NamedFile& file : ExpandFiles(options.images)) {
    if (!file.status.ok()) return Report(console, file.status, file.path);
    auto image = ReadFile(file.path);
    if (!image.ok()) return Report(console, image.status(), file.path);
    paths.push_back(file.path);
    request.images.push_back(*std::move(image));
  }
  const auto comparison = [&] {
    ExperimentProgress progress(console);
    return client.Compare(request, progress.teller(), options.call);
  }();
  if (!comparison.ok()) {
    return Report(console, WhyNotReady(client, request.variants.front().model, comparison.status(),
                                       options.call));
  }
  if (!options.report.empty()) {
    const absl::Status written = WriteFile(options.report, ComparisonReport(*comparison, paths));
    if (!written.ok()) return Report(console, written);
  }
  if (options.json) {
    console.out << ComparisonJson(*comparison, paths) << '\n';
  } else if (options.csv) {
    console.out << ComparisonCsv(*comparison);
  } else {
    PrintComparison(*comparison, paths, console.out, console.colour);
  }
  return kOk;
}

}  // namespace fovea::client
