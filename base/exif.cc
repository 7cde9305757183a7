#include "base/exif.h"

namespace fovea {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kTypeShort = 3;
constexpr size_t kHeaderBytes = 8;
constexpr size_t kEntryBytes = 12;
constexpr int kUpright = 1;

}  // namespace

int ExifOrientation(Bytes tiff) {
  if (tiff.size() < kHeaderBytes) return kUpright;
  const bool big = StartsWith(tiff, 0, "MM");
  if (!big && !StartsWith(tiff, 0, "II")) return kUpright;
  const auto u16 = [&](size_t at) { return big ? U16Big(tiff, at) : U16Little(tiff, at); };
  const auto u32 = [&](size_t at) { return big ? U32Big(tiff, at) : U32Little(tiff, at); };
  if (u16(2) != 42) return kUpright;

  const size_t directory = u32(4);
  if (directory > tiff.size() - 2) return kUpright;
  const size_t entries = u16(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > tiff.size()) return kUpright;
    if (u16(entry) != kOrientationTag) continue;
    const int value = u16(entry + 8);
    const bool valid =
        u16(entry + 2) == kTypeShort && u32(entry + 4) == 1 && value >= 1 && value <= 8;
    return valid ? value : kUpright;
  }
  return kUpright;
}

}  // namespace fovea
