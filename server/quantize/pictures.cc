#include "server/quantize/pictures.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model_zoo/training/data/picture_files/picture_file.h"
#include "model_zoo/training/data/sample_source.h"
#include "model_zoo/training/data/user_data/files.h"
#include "model_zoo/training/data/user_data/image_folder.h"
#include "server/core/memory_budget.h"
#include "server/core/tensor.h"
#include "server/executor/normalise.h"
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
                                                       int64_t most) try {
  std::vector<PictureFile> pictures;
  for (std::filesystem::path& path :
       models::training::FilesBelow(folder, models::training::IsPictureName)) {
    pictures.push_back({.path = std::move(path)});
  }
  if (pictures.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder.string(), " holds no JPEG, PNG or WebP, nor do its folders"));
  }
  return Spread(std::move(pictures), most);
} catch (const models::training::DataError& error) {
  return absl::NotFoundError(error.what());
}

absl::StatusOr<std::vector<PictureFile>> LabelledPictures(const std::filesystem::path& folder,
                                                          const std::vector<std::string>& labels,
                                                          int64_t most) try {
  const models::training::ImageFolder data(folder, labels);
  const std::vector<std::filesystem::path> files = data.files();
  std::vector<PictureFile> pictures;
  for (uint64_t i = 0; i < data.size(); ++i) {
    const std::string name = data.Name(i);  // "cat/1.jpg"
    const auto label = std::ranges::find(labels, name.substr(0, name.find('/')));
    pictures.push_back({.path = files.at(i), .label = label - labels.begin()});
  }
  if (pictures.empty()) {
    return absl::NotFoundError(absl::StrCat(folder.string(), " holds no picture"));
  }
  return Spread(std::move(pictures), most);
} catch (const models::training::DataError& error) {
  return absl::InvalidArgumentError(error.what());
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
    : spec_(ImagingSpec(info, preprocessing)), preprocessing_(preprocessing) {}

absl::StatusOr<at::Tensor> PictureReader::Read(std::span<const PictureFile> pictures) const {
  const ImageSize& size = spec_.sizes.front();
  const auto normalisation = Normalisation::From(preprocessing_.mean, preprocessing_.std);
  const at::Tensor pixels =
      at::zeros({static_cast<int64_t>(pictures.size()), 3, size.height, size.width});
  MemoryBudget budget(std::numeric_limits<int64_t>::max(), SteadyClock());
  const ImagingResources resources{.budget = budget, .clock = SteadyClock()};
  for (size_t i = 0; i < pictures.size(); ++i) {
    FOVEA_ASSIGN_OR_RETURN(const std::string bytes, FileContents(pictures[i].path));
    const auto image = DecodeAndResize(ScatteredBytes::Copy(bytes), spec_, {}, resources);
    if (!image.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(pictures[i].path.string(), ": ", image.status().message()));
    }
    const ImageTransform& seen = image->transform;
    NormaliseImage(image->rgb.data(), seen.height, seen.width, normalisation,
                   pixels[static_cast<int64_t>(i)].mutable_data_ptr<float>(),
                   {.row = size.width, .plane = size.height * size.width});
  }
  return pixels;
}

}  // namespace fovea
