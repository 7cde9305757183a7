#include "model_zoo/training/data/exif_orientation.h"

#include <algorithm>
#include <string_view>

namespace fovea::models::training {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr std::string_view kExif("Exif\0\0", 6);

bool StartsWith(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin());
}

uint32_t Number(Bytes bytes, size_t at, int count, bool big_endian) {
  uint32_t number = 0;
  for (int i = 0; i < count; ++i) {
    number |= uint32_t{bytes[at + i]} << 8 * (big_endian ? count - 1 - i : i);
  }
  return number;
}

}  // namespace

int TiffOrientation(Bytes tiff) {
  constexpr uint32_t kTag = 0x0112, kShort = 3;
  constexpr size_t kEntryBytes = 12;
  if (tiff.size() < 8) return 1;
  const bool big = StartsWith(tiff, "MM");
  if ((!big && !StartsWith(tiff, "II")) || Number(tiff, 2, 2, big) != 42) return 1;
  const size_t directory = Number(tiff, 4, 4, big);
  if (directory > tiff.size() - 2) return 1;
  const size_t entries = Number(tiff, directory, 2, big);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > tiff.size()) return 1;
    if (Number(tiff, entry, 2, big) != kTag) continue;
    const uint32_t value = Number(tiff, entry + 8, 2, big);
    const bool valid = Number(tiff, entry + 2, 2, big) == kShort &&
                       Number(tiff, entry + 4, 4, big) == 1 && value >= 1 && value <= 8;
    return valid ? static_cast<int>(value) : 1;
  }
  return 1;
}

int JpegOrientation(Bytes file) {
  constexpr uint8_t kApp1 = 0xe1, kScan = 0xda;
  for (size_t at = 2; at + 4 <= file.size() && file[at] == 0xff;) {
    const uint8_t marker = file[at + 1];
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    const size_t length = Number(file, at + 2, 2, /*big_endian=*/true);
    if (marker == kScan || length < 2 || at + 2 + length > file.size()) return 1;
    const Bytes segment = file.subspan(at + 4, length - 2);
    if (marker == kApp1 && StartsWith(segment, kExif)) {
      return TiffOrientation(segment.subspan(kExif.size()));
    }
    at += 2 + length;
  }
  return 1;
}

int WebpOrientation(Bytes file) {
  for (size_t at = 12; at + 8 <= file.size();) {
    const size_t length = Number(file, at + 4, 4, /*big_endian=*/false);
    if (length > file.size() - at - 8) return 1;
    const Bytes chunk = file.subspan(at + 8, length);
    if (StartsWith(file.subspan(at), "EXIF")) {  // some writers keep JPEG's prefix
      return TiffOrientation(StartsWith(chunk, kExif) ? chunk.subspan(kExif.size()) : chunk);
    }
    at += 8 + length + length % 2;
  }
  return 1;
}

cv::Mat Upright(const cv::Mat& stored, int orientation) {
  // Which way to flip after 5 to 8 have swapped rows and columns: OpenCV's 1 mirrors left and
  // right, 0 top and bottom, -1 both.
  cv::Mat upright = stored;
  if (orientation >= 5) upright = stored.t();
  const auto flipped = [&upright](int code) {
    cv::Mat to;
    cv::flip(upright, to, code);
    return to;
  };
  switch (orientation) {
    case 2:
    case 6:
      return flipped(1);
    case 3:
    case 7:
      return flipped(-1);
    case 4:
    case 8:
      return flipped(0);
    default:
      return upright;
  }
}

}  // namespace fovea::models::training
