#include "server/compare/measure/prepared_images.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/tensor.h"
#include "server/pipeline/imaging_order.h"

namespace fovea {
namespace {

constexpr size_t kPreparations = 10;  // at least, of all images together

}  // namespace

absl::StatusOr<PreparedImages> PreparedImages::Prepare(const std::vector<std::string>& files,
                                                       const ModelView& model,
                                                       const PreprocessSpec& preprocessing,
                                                       const ImagingResources& resources) {
  PreparedImages prepared;
  for (size_t count = 0; count < std::max(files.size(), kPreparations); ++count) {
    const size_t i = count % files.size();
    const std::span<const std::byte> bytes = std::as_bytes(std::span(files[i]));
    ImageDurations durations;
    absl::StatusOr<ResizedImage> image =
        DecodeAndResize(ScatteredBytes(bytes, /*owner=*/nullptr), preprocessing,
                        ImagingOptionsOf(model), resources, &durations);
    if (!image.ok()) {
      const absl::Status& why = image.status();
      return MakeError(why.code(), ReasonOf(why),
                       absl::StrCat("image ", i + 1, ": ", std::string(why.message())));
    }
    prepared.decode_ms.push_back(durations.decode * 1e-6);
    prepared.preprocess_ms.push_back(durations.preprocess * 1e-6);
    if (count >= files.size()) continue;
    const ImageTransform& seen = image->transform;
    prepared.sources.push_back({.size = {seen.source_height, seen.source_width}});
    prepared.images.push_back(*std::move(image));
  }
  return prepared;
}

std::vector<size_t> PreparedImages::sizes() const {
  std::vector<size_t> distinct;
  for (const ResizedImage& image : images) {
    if (std::find(distinct.begin(), distinct.end(), image.size) == distinct.end()) {
      distinct.push_back(image.size);
    }
  }
  return distinct;
}

int64_t PreparedImages::bytes() const {
  int64_t bytes = 0;
  for (const ResizedImage& image : images) bytes += static_cast<int64_t>(image.rgb.size());
  return bytes;
}

absl::StatusOr<const PreparedImages*> PreparedImagesByModel::Of(const SourceModel& model) {
  const auto known = of_models_.find(model.view);
  if (known != of_models_.end()) return &known->second;
  FOVEA_ASSIGN_OR_RETURN(
      PreparedImages prepared,
      PreparedImages::Prepare(files_, *model.view, model.preprocessing, resources_));
  return &of_models_.emplace(model.view, std::move(prepared)).first->second;
}

int64_t PreparedImagesByModel::bytes() const {
  int64_t bytes = 0;
  for (const auto& [model, images] : of_models_) bytes += images.bytes();
  return bytes;
}

}  // namespace fovea
