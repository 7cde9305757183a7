// What `fovea detect` prints and draws, as the results come.
#pragma once

#include <cstddef>
#include <optional>

#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/console.h"
#include "client/cpp/cli/drawn_pictures.h"
#include "client/cpp/cli/image_tally.h"
#include "client/cpp/cli/on_images.h"
#include "client/cpp/types.h"

namespace fovea::client {

// Text: a line an image, "PATH: 2 objects", and below it a line for each object. JSON: one array in
// COCO's format of results, complete after Finish(). Pictures: where `options.output` says. What
// fails has a sentence on `console.err`. Every line is flushed. Not thread-safe.
class DetectReport {
 public:
  // As ClassifyReport's.
  DetectReport(const ModelId& model, const DetectOptions& options, std::optional<size_t> files,
               const Console& console);

  void Add(const AskedFile<DetectResponse>& file);
  ExitCode Finish(std::optional<size_t> files, bool interrupted);

 private:
  const ModelId& model_;
  const DetectOptions& options_;
  const Console& console_;
  ImageTally tally_;
  DrawnPictures pictures_;
  bool any_object_ = false;
  bool untrained_ = false;
};

}  // namespace fovea::client
