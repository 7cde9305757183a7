// Pictures of a folder as a model is served them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model_zoo/model_description.h"
#include "server/executor/pixel_copy.h"
#include "server/imaging/resize_plan.h"

namespace fovea {

struct PictureFile {
  std::filesystem::path path;
  int64_t label = -1;  // of its class; -1: not known
};

// Every picture (base/picture_folders.h) in `folder` and below it, in the order of their names;
// `most` of them, spread evenly, where there are more. NOT_FOUND: no such folder, or no picture in
// it.
absl::StatusOr<std::vector<PictureFile>> PicturesBelow(const std::filesystem::path& folder,
                                                       int64_t most);

// The pictures of a data set: a folder for each class, called as one of `labels`, which need not
// all be there. NOT_FOUND, INVALID_ARGUMENT: the folder is not so.
absl::StatusOr<std::vector<PictureFile>> LabelledPictures(const std::filesystem::path& folder,
                                                          const std::vector<std::string>& labels,
                                                          int64_t most);

// NOT_FOUND: it cannot be read.
absl::StatusOr<std::string> FileContents(const std::filesystem::path& path);

// Brings pictures to a model as its server does: decoded and resized by server/imaging, normalised
// by PixelCopy.
class PictureReader {
 public:
  PictureReader(const models::ModelInfo& info, const models::Preprocessing& preprocessing);

  // FP32 [N, 3, H, W], normalised, or UINT8 [N, H, W, 3], as the model takes them. The error of the
  // first that cannot be read names its file.
  absl::StatusOr<at::Tensor> Read(std::span<const PictureFile> pictures) const;

 private:
  const PreprocessSpec spec_;
  const PixelCopy copy_;
  const bool takes_bytes_;
};

}  // namespace fovea
