// What `fovea classify` prints, as the results come.
#pragma once

#include <cstddef>
#include <optional>

#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/console.h"
#include "client/cpp/cli/image_tally.h"
#include "client/cpp/cli/on_images.h"
#include "client/cpp/types.h"

namespace fovea::client {

// Text: a line an image, "PATH: LABEL 75.0 %, LABEL 20.0 %", and its receipt on the line below
// where that is asked for. JSON: one document, with a line an image, complete after Finish().
// What fails has a sentence on `console.err` in both. Every line is flushed. Not thread-safe.
class ClassifyReport {
 public:
  // `model`, `options` and `console` outlive it. `files`: how many are to be classified, where that
  // is known.
  ClassifyReport(const ModelId& model, const ClassifyOptions& options, std::optional<size_t> files,
                 const Console& console);

  void Add(const AskedFile<ClassifyResponse>& file);

  // Where files have no result, says how many. Returns the exit code.
  ExitCode Finish(std::optional<size_t> files, bool interrupted);

 private:
  const ModelId& model_;
  const ClassifyOptions& options_;
  const Console& console_;
  ImageTally tally_;
  bool untrained_ = false;
};

}  // namespace fovea::client
