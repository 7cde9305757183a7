// What `fovea segment` prints and draws, as the results come.
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

// Text: a line an image, "PATH: sky 61.2 %, grass 38.8 %". JSON: one array in COCO's format of
// results for stuff, complete after Finish(). Pictures: where `options.output` says. What fails has
// a sentence on `console.err`. Every line is flushed. Not thread-safe.
class SegmentReport {
 public:
  // As ClassifyReport's.
  SegmentReport(const ModelId& model, const SegmentOptions& options, std::optional<size_t> files,
                const Console& console);

  void Add(const AskedFile<SegmentResponse>& file);
  ExitCode Finish(std::optional<size_t> files, bool interrupted);

 private:
  const ModelId& model_;
  const SegmentOptions& options_;
  const Console& console_;
  ImageTally tally_;
  DrawnPictures pictures_;
  bool any_class_ = false;
  bool untrained_ = false;
};

}  // namespace fovea::client
