#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cli/classify_report.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/files.h"
#include "client/cpp/cli/in_order.h"
#include "client/cpp/cli/interruption.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

// The model to use where the command line names none. FAILED_PRECONDITION: there is more than one
// to choose from.
absl::StatusOr<ModelId> OnlyClassifier(Client& client, const CallOptions& call) {
  const auto models = client.Models(call);
  if (!models.ok()) return models.status();
  std::vector<std::string> names;
  const ModelInfo* failed = nullptr;
  for (const ModelInfo& model : *models) {
    const bool classifier = model.ready() && model.task == "classification";
    if (classifier && (names.empty() || names.back() != model.name)) names.push_back(model.name);
    if (failed == nullptr && !model.reason.empty()) failed = &model;
  }
  if (names.size() == 1) return ModelId{names[0], ""};
  if (names.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the server has no classification model that is ready",
                     failed ? absl::StrCat(" (", failed->name, ": ", failed->reason, ")") : ""));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("choose one with --model: the server has ", absl::StrJoin(names, ", ")));
}

struct Attempt {
  ClassifiedFile file;
  bool hopeless = false;  // without the server, or the model, no other file can succeed
};

Attempt Try(Client& client, const ModelId& model, const NamedFile& file,
            const ClassifyOptions& options, int stop) {
  if (!file.status.ok()) return {{file.path, file.status}};
  absl::StatusOr<std::string> image = ReadFile(file.path, stop);
  if (!image.ok()) return {{file.path, image.status()}};
  ClassifyRequest request{.model = model, .top_k = options.top_k};
  request.images.push_back(*std::move(image));
  auto answer = client.Classify(request, options.call);
  if (answer.ok()) return {{file.path, std::move(answer)}};
  return {{file.path, WhyNotReady(client, model, answer.status(), options.call)},
          IsUnreachable(answer.status()) || absl::IsNotFound(answer.status())};
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

  const Interruption interruption([&] { client.Stop(); });
  auto files = FileList::Open(options.images, options.files_from, interruption.descriptor());
  if (!files.ok()) return Report(console, files.status());
  ClassifyReport report(*model, options, files->size(), console);
  std::atomic<bool> hopeless = false;
  bool hopeless_reported = false;
  InOrder<NamedFile, Attempt>(
      options.concurrency,
      [&]() -> std::optional<NamedFile> {
        if (hopeless || interruption.happened()) return std::nullopt;
        return files->Next();
      },
      [&](const NamedFile& file) {
        Attempt attempt = Try(client, *model, file, options, interruption.descriptor());
        if (attempt.hopeless) hopeless = true;
        return attempt;
      },
      [&](const Attempt& attempt) {
        const bool cancelled =
            interruption.happened() && absl::IsCancelled(attempt.file.outcome.status());
        if (cancelled || (attempt.hopeless && hopeless_reported)) return;  // without a result
        hopeless_reported = hopeless_reported || attempt.hopeless;
        report.Add(attempt.file);
      });
  return report.Finish(files->size(), interruption.happened());
}

}  // namespace fovea::client
