#include "server/imaging/bmp_header.h"

#include <algorithm>

namespace fovea {
namespace {

constexpr size_t kFileHeaderBytes = 14;
constexpr uint32_t kCoreHeader = 12;  // OS/2's: 16-bit sides, a palette of three bytes an entry
constexpr uint32_t kInfoHeaders[] = {40, 52, 56, 64, 108, 124};

}  // namespace

BmpProblem ReadBmpHeader(Bytes file, BmpHeader* header) {
  if (file.size() < kFileHeaderBytes + 4) return BmpProblem::kTruncated;
  const uint32_t size = U32Little(file, kFileHeaderBytes);
  if (size != kCoreHeader && std::ranges::find(kInfoHeaders, size) == std::end(kInfoHeaders)) {
    return BmpProblem::kNotBmp;
  }
  const size_t end = kFileHeaderBytes + size;
  if (file.size() < end) return BmpProblem::kTruncated;
  const Bytes fields = file.subspan(kFileHeaderBytes);
  uint32_t coding = 0, colours = 0;
  if (size == kCoreHeader) {
    header->width = U16Little(fields, 4);
    header->height = U16Little(fields, 6);
    header->bits = U16Little(fields, 10);
    header->palette_entry_bytes = 3;
  } else {
    header->width = static_cast<int32_t>(U32Little(fields, 4));
    header->height = static_cast<int32_t>(U32Little(fields, 8));
    header->top_down = header->height < 0;
    if (header->top_down) header->height = -header->height;
    header->bits = U16Little(fields, 14);
    coding = U32Little(fields, 16);
    colours = U32Little(fields, 32);
  }
  const bool palette = header->bits == 1 || header->bits == 4 || header->bits == 8;
  if (!palette && header->bits != 16 && header->bits != 24 && header->bits != 32) {
    return BmpProblem::kUnsupported;
  }
  if (coding > 3 || (coding == 1 && header->bits != 8) || (coding == 2 && header->bits != 4) ||
      (coding == 3 && palette)) {
    return BmpProblem::kUnsupported;
  }
  header->coding = static_cast<BmpCoding>(coding);
  size_t behind = end;
  if (coding == 3) {
    // Behind a header of 40 bytes; inside of the others, with alpha where they have room for it.
    const size_t masks = kFileHeaderBytes + 40;
    const int count = size >= 56 ? 4 : 3;
    if (size == 40) behind += 12;
    if (file.size() < masks + 4 * count) return BmpProblem::kTruncated;
    for (int i = 0; i < count; ++i) header->masks[i] = U32Little(file, masks + 4 * i);
    constexpr std::array<uint32_t, 4> kNone = {};
    if (header->bits == 32 && header->masks == kNone) {
      header->masks = {0xff0000, 0xff00, 0xff, 0xff000000};
    }
  } else if (header->bits == 16) {
    header->masks = {0x7c00, 0x3e0, 0x1f, 0};
  } else if (header->bits == 32) {
    header->masks = {0xff0000, 0xff00, 0xff, 0};
  }
  header->palette_at = behind;
  header->pixels_at = U32Little(file, 10);
  if (palette) {
    header->colours = colours != 0 ? colours : size_t{1} << header->bits;
    if (header->colours > 65'536) return BmpProblem::kUnsupported;
    const size_t behind_palette = behind + header->colours * header->palette_entry_bytes;
    // A writer's mistake that Pillow knows.
    if (header->pixels_at == end || header->pixels_at == 0) header->pixels_at = behind_palette;
  }
  if (header->pixels_at == 0) header->pixels_at = behind;
  return BmpProblem::kNone;
}

}  // namespace fovea
