#include "client/cpp/cli/drawn_pictures.h"

#include <exception>
#include <new>
#include <span>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/files.h"
#include "server/imaging/decode.h"
#include "server/imaging/encode_png.h"
#include "server/imaging/probe.h"

namespace fovea::client {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<RgbImage> Decode(const std::string& file) {
  const Bytes encoded = std::as_bytes(std::span(file));
  const absl::StatusOr<ImageInfo> info = ProbeImage(encoded, {});
  if (!info.ok()) return info.status();
  return DecodeImage(encoded, *info);
}

// What the library that draws throws is one picture's failure: the others are still drawn.
absl::StatusOr<RgbImage> WithoutThrowing(
    const std::function<absl::StatusOr<RgbImage>(const RgbImage&)>& draw, const RgbImage& picture) {
  try {
    return draw(picture);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not drawn: there is not enough memory");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("not drawn: ", error.what()));
  }
}

}  // namespace

absl::StatusOr<fs::path> DrawnPictures::PlaceOf(const std::string& path) {
  // What is not there yet is nobody's. What cannot be looked at (a link to itself, a name that is
  // too long, a folder that is closed) cannot be written to either: Write says why.
  std::error_code unknown;
  const bool one_file = output_.extension() == ".png" && !fs::is_directory(output_, unknown);
  const fs::path own = one_file ? fs::path(path) : fs::absolute(path, unknown).parent_path();
  if (path != "-" && fs::equivalent(output_, own, unknown)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "not drawn: ", output_.string(),
        one_file ? " is the image itself" : " is the images' own folder; name another"));
  }
  if (one_file) {
    if (taken_.insert(output_).second) return output_;
    return absl::InvalidArgumentError(
        absl::StrCat("not drawn: ", output_.string(), " is another image's; name a folder"));
  }
  const std::string stem = path == "-" ? "stdin" : fs::path(path).stem().string();
  fs::path place = output_ / (stem + ".png");
  for (int i = 2; !taken_.insert(place).second; ++i) {
    place = output_ / absl::StrCat(stem, "_", i, ".png");
  }
  return place;
}

absl::Status DrawnPictures::Draw(
    const std::string& path, const std::string& image,
    const std::function<absl::StatusOr<RgbImage>(const RgbImage&)>& draw) {
  if (output_.empty()) return absl::OkStatus();
  const absl::StatusOr<fs::path> place = PlaceOf(path);
  if (!place.ok()) return place.status();
  std::error_code ignored;  // what cannot be made cannot be written to either
  if (place->has_parent_path()) fs::create_directories(place->parent_path(), ignored);
  const absl::StatusOr<RgbImage> picture = Decode(image);
  if (!picture.ok()) return picture.status();
  const absl::StatusOr<RgbImage> drawn = WithoutThrowing(draw, *picture);
  if (!drawn.ok()) return drawn.status();
  const absl::StatusOr<std::string> png = EncodePng(*drawn);
  if (!png.ok()) return png.status();
  return WriteFile(place->string(), *png);
}

}  // namespace fovea::client
