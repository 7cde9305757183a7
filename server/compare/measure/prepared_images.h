// A caller's images, decoded and brought to a model's size once, for all passes over them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/comparison.h"
#include "server/core/resized_image.h"
#include "server/imaging/resize_plan.h"
#include "server/pipeline/served_model.h"

namespace fovea {

struct PreparedImages {
  std::vector<ResizedImage> images;
  std::vector<ComparedImage> sources;  // of each, the size of the caller's file
  // Of an image each; where there are few, each is prepared more than once.
  std::vector<double> decode_ms, preprocess_ms;

  // As `preprocessing` says, on the calling thread, within `model`'s limits and imaging memory, for
  // which it waits. Errors as DecodeAndResize's; the message says which image.
  static absl::StatusOr<PreparedImages> Prepare(const std::vector<std::string>& files,
                                                const ServedModel& model,
                                                const PreprocessSpec& preprocessing, Clock& clock,
                                                const CancellationPtr& cancellation);

  // Of the model's sizes, those that they run at, in the order of the images.
  std::vector<size_t> sizes() const;
  int64_t bytes() const;
};

// The same images, prepared once for each model that runs them at the sizes that it is served at.
// Not thread-safe; `files` outlive it.
class PreparedImagesByModel {
 public:
  PreparedImagesByModel(const std::vector<std::string>& files, Clock& clock,
                        CancellationPtr cancellation)
      : files_(files), clock_(clock), cancellation_(std::move(cancellation)) {}

  // As PreparedImages::Prepare. They live as long as this does.
  absl::StatusOr<const PreparedImages*> Of(const ServedModel& model);
  int64_t bytes() const;

 private:
  const std::vector<std::string>& files_;
  Clock& clock_;
  const CancellationPtr cancellation_;
  std::map<const ServedModel*, PreparedImages> of_models_;
};

}  // namespace fovea
