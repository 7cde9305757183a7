#include "model_zoo/training/data/picture_files/exif_orientation.h"

#include <string_view>

#include "base/exif.h"

namespace fovea::models::training {
namespace {

constexpr std::string_view kExif("Exif\0\0", 6);

}  // namespace

int JpegOrientation(Bytes file) {
  constexpr uint8_t kApp1 = 0xe1, kScan = 0xda;
  for (size_t at = 2; at + 4 <= file.size() && U8(file, at) == 0xff;) {
    const uint8_t marker = U8(file, at + 1);
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    const size_t length = U16Big(file, at + 2);
    if (marker == kScan || length < 2 || at + 2 + length > file.size()) return 1;
    const Bytes segment = file.subspan(at + 4, length - 2);
    if (marker == kApp1 && StartsWith(segment, 0, kExif)) {
      return ExifOrientation(segment.subspan(kExif.size()));
    }
    at += 2 + length;
  }
  return 1;
}

int WebpOrientation(Bytes file) {
  for (size_t at = 12; at + 8 <= file.size();) {
    const size_t length = U32Little(file, at + 4);
    if (length > file.size() - at - 8) return 1;
    const Bytes chunk = file.subspan(at + 8, length);
    if (StartsWith(file, at, "EXIF")) {  // some writers keep JPEG's prefix
      return ExifOrientation(StartsWith(chunk, 0, kExif) ? chunk.subspan(kExif.size()) : chunk);
    }
    at += 8 + length + length % 2;
  }
  return 1;
}

cv::Mat Upright(const cv::Mat& stored, int orientation) {
  const UprightTurn turn = TurnOf(orientation);
  const cv::Mat turned = turn.transposed ? cv::Mat(stored.t()) : stored;
  if (!turn.mirrored && !turn.upside_down) return turned;
  cv::Mat upright;
  // OpenCV's 1 mirrors left and right, 0 top and bottom, -1 both.
  cv::flip(turned, upright, turn.mirrored && turn.upside_down ? -1 : turn.mirrored ? 1 : 0);
  return upright;
}

}  // namespace fovea::models::training
