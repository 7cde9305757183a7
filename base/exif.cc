#include "base/exif.h"

namespace fovea {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kShort = 3, kLong = 4, kSignedShort = 8, kSignedLong = 9;  // types
constexpr size_t kHeaderBytes = 8;
constexpr size_t kEntryBytes = 12;
constexpr int kUpright = 1;

}  // namespace

int ExifOrientation(Bytes tiff) {
  // JPEG's prefix, which some writers keep in PNG's and WebP's chunk.
  if (StartsWith(tiff, 0, kExifPrefix)) tiff = tiff.subspan(kExifPrefix.size());
  if (tiff.size() < kHeaderBytes) return kUpright;
  const bool big = StartsWith(tiff, 0, "MM");
  if (!big && !StartsWith(tiff, 0, "II")) return kUpright;
  const auto u16 = [&](size_t at) { return big ? U16Big(tiff, at) : U16Little(tiff, at); };
  const auto u32 = [&](size_t at) { return big ? U32Big(tiff, at) : U32Little(tiff, at); };
  if (u16(2) != 42 && u16(2) != 42 << 8) return kUpright;

  const size_t directory = u32(4);
  if (directory > tiff.size() - 2) return kUpright;
  const size_t entries = u16(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > tiff.size()) return kUpright;
    if (u16(entry) != kOrientationTag) continue;
    const uint16_t type = u16(entry + 2);
    const uint32_t count = u32(entry + 4);
    const bool is_long = type == kLong || type == kSignedLong;
    if (!is_long && type != kShort && type != kSignedShort) return kUpright;
    if (count == 0 || count > (is_long ? 1 : 2)) return kUpright;  // would lie elsewhere
    const uint32_t value = is_long ? u32(entry + 8) : u16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

}  // namespace fovea
