#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/files.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/parallel.h"
#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

using Align = Table::Align;

// The model to use where the command line names none. FAILED_PRECONDITION: there is more than one
// to choose from.
absl::StatusOr<ModelId> OnlyClassifier(Client& client, const CallOptions& call) {
  const auto models = client.Models(call);
  if (!models.ok()) return models.status();
  std::vector<std::string> names;
  for (const ModelInfo& model : *models) {
    const bool classifier = model.ready() && model.task == "classification";
    if (classifier && (names.empty() || names.back() != model.name)) names.push_back(model.name);
  }
  if (names.size() == 1) return ModelId{names[0], ""};
  if (names.empty()) {
    return absl::NotFoundError("the server has no classification model that is ready");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("choose one with --model: the server has ", absl::StrJoin(names, ", ")));
}

std::vector<ClassifiedFile> ClassifyAll(Client& client, const ModelId& model,
                                        const std::vector<NamedFile>& files,
                                        const ClassifyOptions& options) {
  std::vector<ClassifiedFile> results(files.size());
  ForEach(files.size(), options.concurrency, [&](size_t i) {
    results[i].path = files[i].path;
    if (!files[i].status.ok()) {
      results[i].outcome = files[i].status;
      return;
    }
    absl::StatusOr<std::string> image = ReadFile(files[i].path);
    if (!image.ok()) {
      results[i].outcome = image.status();
      return;
    }
    ClassifyRequest request{.model = model, .top_k = options.top_k};
    request.images.push_back(*std::move(image));
    results[i].outcome = client.Classify(request, options.call);
  });
  return results;
}

void PrintClasses(const std::vector<ClassifiedFile>& files, const Console& console) {
  Table table({{"IMAGE"}, {"LABEL"}, {"CONFIDENCE", Align::kRight}});
  for (const ClassifiedFile& file : files) {
    if (!file.outcome.ok()) continue;
    std::string path = file.path;
    for (const ClassScore& score : file.outcome->images[0]) {
      table.AddRow({std::exchange(path, ""), LabelOf(score), Percent(score.confidence)});
    }
  }
  table.Print(console.out, console.colour);
}

void PrintReceipts(const std::vector<ClassifiedFile>& files, const Console& console) {
  std::vector<Table::Column> columns = {
      {"IMAGE"}, {"BATCH", Align::kRight}, {"PEAK MiB", Align::kRight}};
  for (std::string_view stage : kStageNames) {
    columns.push_back({absl::AsciiStrToUpper(std::string(stage)), Align::kRight});
  }
  columns.push_back({"TOTAL", Align::kRight});
  Table table(std::move(columns));
  for (const ClassifiedFile& file : files) {
    if (!file.outcome.ok()) continue;
    const Receipt& receipt = file.outcome->receipt;
    std::vector<std::string> cells = {file.path, absl::StrCat(receipt.batch_size),
                                      Mebibytes(static_cast<double>(receipt.batch_peak_bytes))};
    for (absl::Duration stage : receipt.stages) cells.push_back(Milliseconds(stage));
    cells.push_back(Milliseconds(receipt.total()));
    table.AddRow(std::move(cells));
  }
  console.out << "\nReceipt (stages in ms; images in the batch, and the most its tensors held)\n";
  table.Print(console.out, console.colour);
}

}  // namespace

ExitCode RunClassify(Client& client, const ClassifyOptions& options, const Console& console) {
  absl::StatusOr<ModelId> model;
  if (options.model.empty()) {
    model = OnlyClassifier(client, options.call);
    if (absl::IsFailedPrecondition(model.status())) {
      return ReportUsage(console, std::string(model.status().message()));
    }
    if (!model.ok()) return Report(console, model.status());
  } else {
    model = ParseModel(options.model);
    if (!model.ok()) return ReportUsage(console, std::string(model.status().message()));
  }

  const std::vector<ClassifiedFile> files =
      ClassifyAll(client, *model, ExpandFiles(options.images), options);

  const ClassifyResponse* answer = nullptr;
  for (const ClassifiedFile& file : files) {
    if (file.outcome.ok()) answer = &*file.outcome;
  }
  if (options.json) {
    console.out << ClassifiedJson(*model, files) << '\n';
  } else if (answer != nullptr) {
    PrintClasses(files, console);
    if (options.receipt) PrintReceipts(files, console);
    if (answer->untrained) {
      console.out << "\nThe weights of " << Printable(model->name)
                  << " are random numbers: its labels mean nothing.\n";
    }
  }
  ExitCode exit_code = kOk;
  for (const ClassifiedFile& file : files) {
    if (file.outcome.ok()) continue;
    exit_code = std::max(exit_code, Report(console, file.outcome.status(), file.path));
  }
  return exit_code;
}

}  // namespace fovea::client
