#include "server/quantize/picture_reader.h"

#include <ATen/ATen.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/picture_folders.h"
#include "base/status.h"
#include "server/core/memory_budget.h"
#include "server/core/tensor.h"
#include "server/imaging/preprocess.h"
#include "server/pipeline/model_options.h"

namespace fovea {
namespace {

std::vector<PictureFile> Spread(std::vector<PictureFile> pictures, int64_t most) {
  const auto count = static_cast<int64_t>(pictures.size());
  if (count <= most) return pictures;
  std::vector<PictureFile> some;
  for (int64_t i = 0; i < most; ++i) {
    some.push_back(std::move(pictures[static_cast<size_t>(i * count / most)]));
  }
  return some;
}

}  // namespace

absl::StatusOr<std::vector<PictureFile>> PicturesBelow(const std::filesystem::path& folder,
                                                       int64_t most) {
  FOVEA_ASSIGN_OR_RETURN(std::vector<std::filesystem::path> files, FilesBelow(folder, IsPicture));
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder.string(), " holds no picture, nor do its folders"));
  }
  std::vector<PictureFile> pictures;
  for (std::filesystem::path& file : files) pictures.push_back({.path = std::move(file)});
  return Spread(std::move(pictures), most);
}

absl::StatusOr<std::vector<PictureFile>> LabelledPictures(const std::filesystem::path& folder,
                                                          const std::vector<std::string>& labels,
                                                          int64_t most) {
  FOVEA_ASSIGN_OR_RETURN(std::vector<ClassPicture> labelled, PicturesOfClasses(folder, labels));
  std::vector<PictureFile> pictures;
  for (ClassPicture& picture : labelled) {
    pictures.push_back({.path = std::move(picture.file), .label = picture.class_index});
  }
  return Spread(std::move(pictures), most);
}

absl::StatusOr<std::string> FileContents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) {
    return absl::NotFoundError(absl::StrCat(path.string(), " cannot be read"));
  }
  return bytes;
}

PictureReader::PictureReader(const models::ModelInfo& info,
                             const models::Preprocessing& preprocessing)
    : spec_(ImagingSpec(info, preprocessing)),
      copy_(preprocessing),
      takes_bytes_(info.pixel_input == models::PixelInput::kBytes) {}

absl::StatusOr<at::Tensor> PictureReader::Read(std::span<const PictureFile> pictures) const {
  MemoryBudget budget(std::numeric_limits<int64_t>::max(), SteadyClock());
  const ImagingResources resources{.budget = budget, .clock = SteadyClock()};
  DecodedPixels decoded;
  for (const PictureFile& picture : pictures) {
    FOVEA_ASSIGN_OR_RETURN(const std::string bytes, FileContents(picture.path));
    auto image = DecodeAndResize(ScatteredBytes::Copy(bytes), spec_, {}, resources);
    if (!image.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(picture.path.string(), ": ", image.status().message()));
    }
    decoded.images.push_back(*std::move(image));
  }
  const auto count = static_cast<int64_t>(pictures.size());
  const auto& [height, width] = spec_.sizes.front();
  const at::Tensor pixels = takes_bytes_ ? at::empty({count, height, width, 3}, at::kByte)
                                         : at::empty({count, 3, height, width});
  copy_.Copy(decoded, pixels);
  return pixels;
}

}  // namespace fovea
