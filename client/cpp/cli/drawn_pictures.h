// Where the pictures go that a command draws.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "server/imaging/image.h"

namespace fovea::client {

// Not thread-safe.
class DrawnPictures {
 public:
  // `output`: a .png file, for one picture, or a folder, which is made; empty: nothing is drawn.
  explicit DrawnPictures(const std::string& output) : output_(output) {}

  // Decodes `image`, a file's bytes, has it drawn on, and writes what comes of it as a PNG, under
  // the name of `path`, or that name and a number. INVALID_ARGUMENT: the image, or the place.
  // INTERNAL, RESOURCE_EXHAUSTED: `draw` threw.
  absl::Status Draw(const std::string& path, const std::string& image,
                    const std::function<absl::StatusOr<RgbImage>(const RgbImage&)>& draw);

 private:
  // Where that of `path` goes: no two go to one, and none into the folder of the pictures, where it
  // could replace one. INVALID_ARGUMENT: there is one place for many, or none.
  absl::StatusOr<std::filesystem::path> PlaceOf(const std::string& path);

  const std::filesystem::path output_;
  std::set<std::filesystem::path> taken_;
};

}  // namespace fovea::client
