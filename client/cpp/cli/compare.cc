#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/comparison_report.h"
#include "client/cpp/cli/comparison_text.h"
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

void ShowProgress(const CompareProgress& progress, const Console& console) {
  const char* doing = "waiting for other comparisons";
  switch (progress.phase) {
    case CompareProgress::Phase::kWaiting:
      break;
    case CompareProgress::Phase::kLoading:
      doing = "loading";
      break;
    case CompareProgress::Phase::kMeasuring:
      doing = "measuring, round";
      break;
    case CompareProgress::Phase::kAnalysing:
      doing = "analysing";
      break;
  }
  console.err << "\r\033[K" << doing;
  if (progress.total > 0) console.err << ' ' << progress.done << " of " << progress.total;
  console.err << std::flush;
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
  const auto comparison = client.Compare(
      request,
      [&](const CompareProgress& progress) {
        if (console.progress) ShowProgress(progress, console);
      },
      options.call);
  if (console.progress) console.err << "\r\033[K" << std::flush;
  if (!comparison.ok()) {
    return Report(console, WhyNotReady(client, request.variants.front().model, comparison.status(),
                                       options.call));
  }
  if (!options.report.empty()) {
    std::ofstream page(options.report, std::ios::binary);
    page << ComparisonReport(*comparison, paths) << std::flush;
    if (!page) {
      return Report(console, absl::InvalidArgumentError("cannot be written"), options.report);
    }
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
