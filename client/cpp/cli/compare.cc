#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/companion_commands.h"
#include "client/cpp/cli/comparison_json.h"
#include "client/cpp/cli/comparison_report.h"
#include "client/cpp/cli/comparison_text.h"
#include "client/cpp/cli/dataset_figures.h"
#include "client/cpp/cli/files.h"
#include "client/cpp/cli/interruption.h"
#include "client/cpp/cli/progress_line.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/variants.h"

namespace fovea::client {
namespace {

struct DatasetOutcome {
  int exit_code = kOk;
  std::optional<DatasetFigures> figures;
};

// Of the variants that RunCompare compares, in its order.
DatasetOutcome MeasureDataset(const CompareOptions& options, size_t variants,
                              const ServerAccess& server, const Console& console) {
  std::vector<std::string> arguments = {"--json", "--rounds", "0", "--dataset",
                                        options.dataset.path};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {flag, value});
  };
  for (const std::string& model : options.models) add("--model", model);
  for (const std::string& attention : options.attentions) add("--attention", attention);
  if (options.dataset.limit > 0) add("--limit", absl::StrCat(options.dataset.limit));
  add("--task", options.dataset.task);
  add("--images", options.dataset.images);
  if (options.dataset.by_number) arguments.push_back("--by-number");
  const CompanionOutput output =
      AskCompanionCommand("evaluate", std::move(arguments), server, console);
  DatasetOutcome outcome{.exit_code = output.exit_code};
  if (output.exit_code != 0 && output.text.empty()) return outcome;  // it has said why
  auto figures = ReadDatasetFigures(output.text);
  if (!figures.ok()) return {.exit_code = Report(console, figures.status())};
  // Of a comparison there are all or none.
  if (!figures->unfinished.empty()) return outcome;
  if (figures->variants.size() != variants) {
    return {.exit_code = Report(console, absl::InternalError(absl::StrCat(
                                             "fovea-evaluate measures ", figures->variants.size(),
                                             " variants, not ", variants)))};
  }
  outcome.figures = *std::move(figures);
  return outcome;
}

}  // namespace

ExitCode RunCompare(Client& client, const CompareOptions& options, const ServerAccess& server,
                    const Console& console) {
  auto variants = VariantsOf(options.models, options.attentions, /*own_before_one=*/true);
  if (!variants.ok()) return ReportUsage(console, std::string(variants.status().message()));
  if (variants->size() < 2) {
    return ReportUsage(console,
                       "there is nothing to compare: give two models or more, or an attention");
  }
  CompareRequest request{.variants = *std::move(variants),
                         .rounds = options.rounds,
                         .max_rounds = options.max_rounds,
                         .max_time = options.max_time,
                         .batch_size = options.batch_size,
                         .threads = options.threads};
  std::vector<std::string> paths;
  FilesLeftOut left_out;
  const std::vector<NamedFile> files = ExpandFiles(options.images, &left_out);
  if (const std::string line = left_out.Line(); !line.empty()) {
    console.err << "fovea: " << line << "\n";
  }
  for (const NamedFile& file : files) {
    if (!file.status.ok()) return Report(console, file.status, file.path);
    auto image = ReadFile(file.path);
    if (!image.ok()) return Report(console, image.status(), file.path);
    paths.push_back(file.path);
    request.images.push_back(*std::move(image));
  }
  // First: what is wrong with a data set is said before anything takes long.
  DatasetOutcome dataset;
  if (!options.dataset.path.empty()) {
    dataset = MeasureDataset(options, request.variants.size(), server, console);
    if (!dataset.figures) return static_cast<ExitCode>(dataset.exit_code);
  }
  const DatasetFigures* const figures = dataset.figures ? &*dataset.figures : nullptr;
  const Interruption interruption([&] { client.Stop(); });
  const auto comparison = [&] {
    ProgressLine line(console);
    return client.Compare(request, line.writer(), options.call);
  }();
  if (!comparison.ok()) {
    if (interruption.happened()) return kInterrupted;
    return Report(console,
                  WhyNotReady(client, request.variants, comparison.status(), options.call));
  }
  if (!options.report.empty()) {
    const absl::Status written =
        WriteFile(options.report, ComparisonReport(*comparison, paths, console.command, figures));
    if (!written.ok()) return Report(console, written);
  }
  if (options.json) {
    console.out << ComparisonJson(*comparison, paths, console.command, figures) << '\n';
  } else if (options.csv) {
    console.out << ComparisonCsv(*comparison, console.command, figures);
  } else {
    PrintComparison(*comparison, paths, console.out, console.colour, figures);
  }
  return static_cast<ExitCode>(dataset.exit_code);
}

}  // namespace fovea::client
