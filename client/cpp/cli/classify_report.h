// What `fovea classify` prints, as the results come.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/console.h"
#include "client/cpp/types.h"

namespace fovea::client {

// One image of `fovea classify`.
struct ClassifiedFile {
  std::string path;
  absl::StatusOr<ClassifyResponse> outcome;
};

// Text: a line an image, "PATH: LABEL 75.0 %, LABEL 20.0 %", and its receipt on the line below
// where that is asked for. JSON: one document, with a line an image, complete after Finish().
// What fails has a sentence on `console.err` in both. Every line is flushed. Not thread-safe.
class ClassifyReport {
 public:
  // `model`, `options` and `console` outlive it. `files`: how many are to be classified, where that
  // is known.
  ClassifyReport(const ModelId& model, const ClassifyOptions& options, std::optional<size_t> files,
                 const Console& console);

  void Add(const ClassifiedFile& file);

  // Where files have no result, says how many. Returns the exit code.
  ExitCode Finish(std::optional<size_t> files, bool interrupted);

 private:
  void ShowProgress();
  void ClearProgress();

  const ModelId& model_;
  const ClassifyOptions& options_;
  const std::optional<size_t> files_;
  const Console& console_;
  size_t classified_ = 0;
  size_t failed_ = 0;
  bool untrained_ = false;
  ExitCode exit_code_ = kOk;
};

}  // namespace fovea::client
