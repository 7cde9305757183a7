// A decoder of our own: Debian's only library for BMP is OpenCV's imgcodecs, which loads a hundred
// others. The file is a header and rows of samples, plain or as one of two forms of runs.
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/pixel_format.h"
#include "server/imaging/bmp_header.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"

namespace fovea {
namespace {

// The colours of a palette; missing ones are black.
std::array<Rgb, 256> Palette(Bytes file, const BmpHeader& header) {
  std::array<Rgb, 256> colours = {};
  for (size_t i = 0; i < std::min<size_t>(header.colours, 256); ++i) {
    const size_t at = header.palette_at + i * header.palette_entry_bytes;
    if (at + 3 > file.size()) break;
    colours[i] = {U8(file, at + 2), U8(file, at + 1), U8(file, at)};
  }
  return colours;
}

// The samples that a mask takes out of a pixel, in 8 bits.
class Masked {
 public:
  explicit Masked(uint32_t mask)
      : mask_(mask), shift_(mask != 0 ? std::countr_zero(mask) : 0), most_(mask >> shift_) {}
  uint8_t Of(uint32_t pixel) const {
    if (most_ == 0) return 0;
    return static_cast<uint8_t>(uint64_t{(pixel & mask_) >> shift_} * 255 / most_);
  }

 private:
  uint32_t mask_;
  int shift_;
  uint32_t most_;
};

// Unpacks a picture's runs to colour numbers, row by row as stored. nullopt if the runs end before
// the picture does.
std::optional<std::vector<uint8_t>> UnpackRuns(Bytes runs, const BmpHeader& header) {
  const bool nibbles = header.coding == BmpCoding::kRunsOfNibbles;
  const auto width = static_cast<size_t>(header.width);
  std::vector<uint8_t> numbers(width * static_cast<size_t>(header.height));
  size_t at = 0, to = 0, x = 0;
  const auto put = [&](uint8_t number) {
    if (to < numbers.size()) numbers[to++] = number;
  };
  while (to < numbers.size()) {
    if (runs.size() - at < 2) return std::nullopt;
    const uint8_t count = U8(runs, at), value = U8(runs, at + 1);
    at += 2;
    if (count != 0) {  // a run, which does not leave its row
      const size_t length = std::min<size_t>(count, width - std::min(x, width));
      for (size_t i = 0; i < length; ++i) {
        put(!nibbles ? value : i % 2 == 0 ? value >> 4 : value & 15);
      }
      x += length;
    } else if (value == 0) {  // the row ends
      if (to % width != 0) to += width - to % width;
      x = 0;
    } else if (value == 1) {  // the picture ends
      return std::nullopt;
    } else if (value == 2) {  // right and down
      if (runs.size() - at < 2) return std::nullopt;
      to = std::min(to + U8(runs, at) + size_t{U8(runs, at + 1)} * width, numbers.size());
      at += 2;
      x = to % width;
    } else {  // `value` literal numbers, padded to an even byte
      const size_t bytes = nibbles ? (size_t{value} + 1) / 2 : value;
      if (runs.size() - at < bytes) return std::nullopt;
      for (size_t i = 0; i < value; ++i) {
        const uint8_t byte = U8(runs, at + (nibbles ? i / 2 : i));
        put(!nibbles ? byte : i % 2 == 0 ? byte >> 4 : byte & 15);
      }
      x += value;
      at = std::min(at + bytes + bytes % 2, runs.size());
    }
  }
  return numbers;
}

class RowReader {
 public:
  RowReader(Bytes file, const BmpHeader& header, const Rgb& background)
      : header_(header),
        background_(background),
        palette_(Palette(file, header)),
        masks_{Masked(header.masks[0]), Masked(header.masks[1]), Masked(header.masks[2]),
               Masked(header.masks[3])} {}

  void Read(Bytes row, uint8_t* rgb) const {
    for (int64_t x = 0; x < header_.width; ++x, rgb += 3) {
      const auto at = static_cast<size_t>(x);
      switch (header_.bits) {
        case 1:
          Numbered(U8(row, at / 8) >> (7 - at % 8) & 1, rgb);
          break;
        case 4:
          Numbered(at % 2 == 0 ? U8(row, at / 2) >> 4 : U8(row, at / 2) & 15, rgb);
          break;
        case 8:
          Numbered(U8(row, at), rgb);
          break;
        case 16:
          Mixed(U16Little(row, 2 * at), rgb);
          break;
        case 24:
          for (size_t c = 0; c < 3; ++c) rgb[c] = U8(row, 3 * at + 2 - c);
          break;
        default:
          Mixed(U32Little(row, 4 * at), rgb);
      }
    }
  }

  void Numbered(uint8_t number, uint8_t* rgb) const {
    for (size_t c = 0; c < 3; ++c) rgb[c] = palette_[number][c];
  }

 private:
  void Mixed(uint32_t pixel, uint8_t* rgb) const {
    const uint8_t rgba[] = {masks_[0].Of(pixel), masks_[1].Of(pixel), masks_[2].Of(pixel),
                            header_.masks[3] != 0 ? masks_[3].Of(pixel) : uint8_t{255}};
    RgbaOverBackground(1, rgba, background_, rgb);
  }

  const BmpHeader& header_;
  const Rgb background_;
  const std::array<Rgb, 256> palette_;
  const std::array<Masked, 4> masks_;
};

std::string Decode(Bytes encoded, const Rgb& background, RgbImage& image) {
  BmpHeader header;
  if (ReadBmpHeader(encoded, &header) != BmpProblem::kNone) return "another header than probed";
  const RowReader reader(encoded, header, background);
  const Bytes pixels = encoded.subspan(header.pixels_at);
  const bool rows = header.coding == BmpCoding::kRows || header.coding == BmpCoding::kMasks;
  std::optional<std::vector<uint8_t>> numbers;
  if (!rows && !(numbers = UnpackRuns(pixels, header))) return "its runs end before its pixels";
  image = RgbImage::Allocate(static_cast<int>(header.height), static_cast<int>(header.width));
  for (int y = 0; y < image.height; ++y) {
    const size_t stored = static_cast<size_t>(header.top_down ? y : image.height - 1 - y);
    uint8_t* rgb = image.pixels.get() + size_t{3} * image.width * y;
    if (rows) {
      reader.Read(pixels.subspan(stored * header.row_bytes()), rgb);
      continue;
    }
    for (int x = 0; x < image.width; ++x) {
      reader.Numbered((*numbers)[stored * image.width + x], rgb + size_t{3} * x);
    }
  }
  return {};
}

}  // namespace

absl::StatusOr<RgbImage> DecodeBmp(Bytes encoded, const ImageInfo& /*info*/,
                                   const DecodeOptions& options) {
  RgbImage image;
  FOVEA_RETURN_IF_ERROR(RunCodec([&] { return Decode(encoded, options.background, image); }));
  return image;
}

}  // namespace fovea
