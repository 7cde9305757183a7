// A caller's images, decoded and brought to a model's size once, for all passes over them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/compare/variant_source.h"
#include "server/core/comparison.h"
#include "server/core/model_catalog.h"
#include "server/core/resized_image.h"
#include "server/imaging/preprocess.h"
#include "server/imaging/resize_plan.h"

namespace fovea {

struct PreparedImages {
  std::vector<ResizedImage> images;
  std::vector<ComparedImage> sources;  // of each, the size of the caller's file
  // Of an image each; where there are few, each is prepared more than once.
  std::vector<double> decode_ms, preprocess_ms;

  // As `preprocessing` says, on the calling thread, within `model`'s limits and the memory of
  // `resources`, for which it waits. Errors as DecodeAndResize's; the message says which image.
  static absl::StatusOr<PreparedImages> Prepare(const std::vector<std::string>& files,
                                                const ModelView& model,
                                                const PreprocessSpec& preprocessing,
                                                const ImagingResources& resources);

  // Of the model's sizes, those that they run at, in the order of the images.
  std::vector<size_t> sizes() const;
  int64_t bytes() const;
};

// The same images, prepared once for each model that runs them at the sizes that it is served at.
// Not thread-safe; `files` and what `resources` name outlive it.
class PreparedImagesByModel {
 public:
  PreparedImagesByModel(const std::vector<std::string>& files, ImagingResources resources)
      : files_(files), resources_(std::move(resources)) {}

  // As PreparedImages::Prepare. They live as long as this does.
  absl::StatusOr<const PreparedImages*> Of(const SourceModel& model);
  int64_t bytes() const;

 private:
  const std::vector<std::string>& files_;
  const ImagingResources resources_;
  std::map<std::shared_ptr<const ModelView>, PreparedImages> of_models_;
};

}  // namespace fovea
