// What the commands share that ask a model about images, one a request.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/files.h"
#include "client/cpp/cli/in_order.h"
#include "client/cpp/cli/interruption.h"
#include "client/cpp/cli/readiness.h"

namespace fovea::client {

// The model of `options`, or the server's only one of `task` where they name none.
// INVALID_ARGUMENT: no name; FAILED_PRECONDITION: there is more than one to choose from. Both are
// mistakes in usage.
absl::StatusOr<ModelId> ChooseModel(Client& client, const ImagesOptions& options,
                                    const std::string& task);

// One image of a command.
template <typename Response>
struct AskedFile {
  std::string path;
  absl::StatusOr<Response> outcome;
  std::string image;      // the file's bytes, where there is an outcome
  bool hopeless = false;  // without the server, or the model, no other file can succeed
};

// Asks `ask(model, image)`, an absl::StatusOr<Response>, about each of the files of `options`,
// several at a time, and gives them to `report.Add` in their order. `make_report(model, files)`
// makes it; `files` is how many there are, where that is known. Returns what `report.Finish` says.
template <typename Response, typename Ask, typename MakeReport>
ExitCode RunOnImages(Client& client, const std::string& task, const ImagesOptions& options,
                     const Console& console, const Ask& ask, const MakeReport& make_report) {
  const absl::StatusOr<ModelId> model = ChooseModel(client, options, task);
  if (absl::IsFailedPrecondition(model.status()) || absl::IsInvalidArgument(model.status())) {
    return ReportUsage(console, std::string(model.status().message()));
  }
  if (!model.ok()) return Report(console, model.status());

  const Interruption interruption([&] { client.Stop(); });
  auto files = FileList::Open(options.images, options.files_from, interruption.descriptor());
  if (!files.ok()) return Report(console, files.status());
  if (!files->left_out().empty()) console.err << "fovea: " << files->left_out() << "\n";
  auto report = make_report(*model, files->size());
  const auto try_file = [&](const NamedFile& file) -> AskedFile<Response> {
    if (!file.status.ok()) return {file.path, file.status};
    absl::StatusOr<std::string> image = ReadFile(file.path, interruption.descriptor());
    if (!image.ok()) return {file.path, image.status()};
    absl::StatusOr<Response> answer = ask(*model, *image);
    if (answer.ok()) return {file.path, std::move(answer), *std::move(image)};
    return {file.path, WhyNotReady(client, *model, answer.status(), options.call), "",
            IsUnreachable(answer.status()) || absl::IsNotFound(answer.status())};
  };
  std::atomic<bool> hopeless = false;
  bool hopeless_reported = false;
  InOrder<NamedFile, AskedFile<Response>>(
      options.concurrency,
      [&]() -> std::optional<NamedFile> {
        if (hopeless || interruption.happened()) return std::nullopt;
        return files->Next();
      },
      [&](const NamedFile& file) {
        AskedFile<Response> asked = try_file(file);
        if (asked.hopeless) hopeless = true;
        return asked;
      },
      [&](const AskedFile<Response>& file) {
        const bool cancelled = interruption.happened() && absl::IsCancelled(file.outcome.status());
        if (cancelled || (file.hopeless && hopeless_reported)) return;  // without a result
        hopeless_reported = hopeless_reported || file.hopeless;
        report.Add(file);
      });
  return report.Finish(files->size(), interruption.happened());
}

}  // namespace fovea::client
