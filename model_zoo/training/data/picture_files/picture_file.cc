#include "model_zoo/training/data/picture_files/picture_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "base/limits.h"
#include "model_zoo/training/data/picture_files/png_file.h"
#include "model_zoo/training/data/sample_source.h"
#include "server/imaging/decode.h"
#include "server/imaging/probe.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;
using FileBytes = std::span<const uint8_t>;

// Without the file's name, which ReadPicture puts in front.
[[noreturn]] void Refuse(const std::string& why) { throw DataError(why); }

std::vector<uint8_t> Contents(const fs::path& file) {
  if (!fs::is_regular_file(file)) Refuse("there is no such file");
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream.tellg();
  if (!stream || size < 0) Refuse("it cannot be opened");
  if (size > limits::kMaxEncodedImageBytes) {
    Refuse("it is larger than " + std::to_string(limits::kMaxEncodedImageBytes >> 20) + " MiB");
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  stream.seekg(0).read(reinterpret_cast<char*>(bytes.data()), size);
  if (!stream) Refuse("it cannot be read");
  return bytes;
}

cv::Mat Decode(Bytes file) {
  const absl::StatusOr<ImageInfo> info = ProbeImage(file, {});
  if (!info.ok()) Refuse(std::string(info.status().message()));
  const absl::StatusOr<RgbImage> image = DecodeImage(file, *info);
  if (!image.ok()) Refuse(std::string(image.status().message()));
  return cv::Mat(image->height, image->width, CV_8UC3, image->pixels.get()).clone();
}

// Returns one of the channels, which are equal but for the opacity.
cv::Mat OneChannel(const cv::Mat& pixels) {
  const int channels = pixels.channels();
  if (channels == 1) return pixels;
  std::vector<cv::Mat> apart;
  cv::split(pixels, apart);
  for (int i = 1; i + (channels % 2 == 0 ? 1 : 0) < channels; ++i) {
    if (cv::norm(apart[0], apart[i], cv::NORM_INF) == 0) continue;
    Refuse("it is in colours, and a mask holds the class number of each pixel: write one channel");
  }
  return apart[0];
}

cv::Mat DecodeLevels(FileBytes file) {
  constexpr uint8_t kPng[] = {0x89, 'P', 'N', 'G'};
  if (file.size() < sizeof(kPng) || !std::equal(kPng, std::end(kPng), file.begin())) {
    Refuse("a mask is a PNG, which no compression changes");
  }
  DecodedPng decoded = DecodeLevelsPng(file, limits::kMaxImagePixels, limits::kMaxImageSide);
  if (!decoded.failure.empty()) Refuse("it is no PNG that can be read: " + decoded.failure);
  return OneChannel(decoded.pixels);
}

template <typename Read>
auto Named(const fs::path& file, const Read& read) {
  try {
    return read(Contents(file));
  } catch (const DataError& error) {
    throw DataError("the picture " + file.string() + ": " + error.what());
  }
}

}  // namespace

cv::Mat ReadPicture(const fs::path& file) {
  return Named(file, [](const std::vector<uint8_t>& bytes) {
    return Decode(std::as_bytes(std::span(bytes)));
  });
}

cv::Mat ReadLevels(const fs::path& file) {
  return Named(file, [](const std::vector<uint8_t>& bytes) { return DecodeLevels(bytes); });
}

int OrientationOf(const fs::path& file) {
  return Named(file, [](const std::vector<uint8_t>& bytes) {
    const absl::StatusOr<ImageInfo> info = ProbeImage(std::as_bytes(std::span(bytes)), {});
    if (!info.ok()) Refuse(std::string(info.status().message()));
    return info->orientation;
  });
}

void WritePng(const fs::path& file, const cv::Mat& pixels) {
  const std::string failure = EncodePng(file.string(), pixels);
  if (!failure.empty()) {
    throw std::runtime_error("could not write " + file.string() + ": " + failure);
  }
}

}  // namespace fovea::models::training
