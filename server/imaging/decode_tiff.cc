// libtiff unpacks strips and tiles. Their samples are interpreted here, so that no buffer of the
// picture's size is needed besides its pixels.
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/pixel_format.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"
#include "server/imaging/tiff_directory.h"

namespace fovea {
namespace {

// A file in memory, and the first error about it.
struct Source {
  Bytes file;
  size_t at = 0;
  std::string words;
};

tmsize_t Read(thandle_t handle, void* to, tmsize_t size) {
  auto& source = *static_cast<Source*>(handle);
  const size_t bytes = std::min(source.file.size() - source.at, static_cast<size_t>(size));
  std::memcpy(to, source.file.data() + source.at, bytes);
  source.at += bytes;
  return static_cast<tmsize_t>(bytes);
}
tmsize_t Write(thandle_t, void*, tmsize_t) { return -1; }
toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  auto& source = *static_cast<Source*>(handle);
  const toff_t from = whence == SEEK_CUR ? source.at : whence == SEEK_END ? source.file.size() : 0;
  source.at = static_cast<size_t>(std::min<toff_t>(from + offset, source.file.size()));
  return source.at;
}
int Close(thandle_t) { return 0; }
toff_t Size(thandle_t handle) { return static_cast<Source*>(handle)->file.size(); }

int NoteError(TIFF*, void* user, const char* module, const char* format, va_list arguments) {
  auto& words = static_cast<Source*>(user)->words;
  char text[256];
  std::vsnprintf(text, sizeof(text), format, arguments);
  if (words.empty()) words = absl::StrCat("libtiff: ", module, ": ", text);
  return 1;
}
// After a warning of libjpeg, or of the fax codecs ("Fax4Decode"), pixels may be made up or
// missing; other warnings affect none.
int NoteWarning(TIFF* tiff, void* user, const char* module, const char* format, va_list arguments) {
  const std::string_view from(module);
  if (from == "JPEGLib" || from.starts_with("Fax")) {
    NoteError(tiff, user, module, format, arguments);
  }
  return 1;
}

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using Tiff = std::unique_ptr<TIFF, CloseTiff>;

Tiff Open(Source& source, int64_t most_bytes) {
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  if (options == nullptr) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, most_bytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options, NoteError, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options, NoteWarning, &source);
  // m: the file is not mapped, and strips are read one at a time; c: a large strip that is not
  // compressed is not read as several.
  Tiff tiff(TIFFClientOpenExt("image", "rmc", &source, Read, Write, Seek, Close, Size,
                              /*mapproc=*/nullptr, /*unmapproc=*/nullptr, options));
  TIFFOpenOptionsFree(options);
  return tiff;
}

// Converts rows of samples to RGB.
class SampleReader {
 public:
  SampleReader(TIFF* tiff, const TiffPage& page, const Rgb& background)
      : page_(page), background_(background) {
    if (page.colours != TiffColours::kPalette) return;
    uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;
    if (TIFFGetField(tiff, TIFFTAG_COLORMAP, &red, &green, &blue) == 0) return;
    const int entries = 1 << page.bits;
    // Some writers store 8-bit values in the 16-bit entries.
    int most = 0;
    for (int i = 0; i < entries; ++i)
      most = std::max({most, int{red[i]}, int{green[i]}, int{blue[i]}});
    const int shift = most < 256 ? 0 : 8;
    for (int i = 0; i < entries; ++i) {
      palette_[i] = {static_cast<uint8_t>(red[i] >> shift), static_cast<uint8_t>(green[i] >> shift),
                     static_cast<uint8_t>(blue[i] >> shift)};
    }
    has_palette_ = true;
  }
  bool sound() const { return page_.colours != TiffColours::kPalette || has_palette_; }

  // `rows`: of each plane, or the one of all samples.
  void Read(const std::array<const uint8_t*, 6>& rows, int64_t pixels, uint8_t* rgb) const {
    uint8_t samples[6];
    for (int64_t x = 0; x < pixels; ++x, rgb += 3) {
      for (int s = 0; s < page_.samples; ++s) {
        samples[s] = page_.planes ? Sample(rows[s], x) : Sample(rows[0], x * page_.samples + s);
      }
      Pixel(samples, rgb);
    }
  }

 private:
  // A sample scaled to 8 bits; a palette index as it is.
  uint8_t Sample(const uint8_t* row, int64_t i) const {
    if (page_.bits == 8) return row[i];
    if (page_.bits == 16) {
      uint16_t sample;
      std::memcpy(&sample, row + 2 * i, 2);
      return static_cast<uint8_t>((uint32_t{sample} * 255 + 32895) >> 16);
    }
    const int per_byte = 8 / page_.bits, most = (1 << page_.bits) - 1;
    const int shift = 8 - page_.bits * static_cast<int>(i % per_byte + 1);
    const int sample = row[i / per_byte] >> shift & most;
    return static_cast<uint8_t>(page_.colours == TiffColours::kPalette ? sample
                                                                       : sample * 255 / most);
  }

  void Pixel(const uint8_t* samples, uint8_t* rgb) const {
    int alpha_at = 3;
    switch (page_.colours) {
      case TiffColours::kCmyk: {
        uint8_t inverted[4];
        for (int i = 0; i < 4; ++i) inverted[i] = 255 - samples[i];
        InvertedCmykToRgb(1, inverted, rgb);
        return;
      }
      case TiffColours::kPalette:
        std::memcpy(rgb, palette_[samples[0]].data(), 3);
        alpha_at = 1;
        break;
      case TiffColours::kWhiteIsZero:
      case TiffColours::kBlackIsZero:
        std::memset(rgb, page_.colours == TiffColours::kWhiteIsZero ? 255 - samples[0] : samples[0],
                    3);
        alpha_at = 1;
        break;
      default:
        std::memcpy(rgb, samples, 3);
    }
    if (page_.alpha == TiffAlpha::kNone) return;
    uint8_t rgba[4] = {rgb[0], rgb[1], rgb[2], samples[alpha_at]};
    if (page_.alpha == TiffAlpha::kPremultiplied && rgba[3] != 0) {
      for (int c = 0; c < 3; ++c) {
        rgba[c] = static_cast<uint8_t>(std::min(255 * rgba[c] / rgba[3], 255));
      }
    }
    RgbaOverBackground(1, rgba, background_, rgb);
  }

  const TiffPage& page_;
  const Rgb background_;
  std::array<Rgb, 256> palette_ = {};
  bool has_palette_ = false;
};

std::string ReadBlocks(TIFF* tiff, const TiffPage& page, const SampleReader& reader,
                       const Source& source, RgbImage& image) {
  const int planes = page.planes ? page.samples : 1;
  const int64_t plane_bytes = page.block_bytes() / planes;
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(plane_bytes * planes);
  const int64_t blocks = page.blocks_of_plane();
  for (int64_t block = 0; block < blocks; ++block) {
    const TiffPage::Area area = page.AreaOf(block);
    // The last strip holds what is left, a tile is always whole.
    const int64_t wanted = page.row_bytes() * (page.tiled ? page.block_height : area.height);
    for (int plane = 0; plane < planes; ++plane) {
      const auto index = static_cast<uint32_t>(plane * blocks + block);
      uint8_t* to = buffer.get() + plane * plane_bytes;
      // libtiff reports whole blocks of which a codec wrote only a part.
      std::memset(to, 0, wanted);
      const tmsize_t read = page.tiled ? TIFFReadEncodedTile(tiff, index, to, wanted)
                                       : TIFFReadEncodedStrip(tiff, index, to, wanted);
      if (read != wanted) return source.words.empty() ? "libtiff: too little" : source.words;
    }
    for (int64_t y = 0; y < area.height; ++y) {
      std::array<const uint8_t*, 6> rows = {};
      for (int plane = 0; plane < planes; ++plane) {
        rows[plane] = buffer.get() + plane * plane_bytes + y * page.row_bytes();
      }
      reader.Read(rows, area.width,
                  image.pixels.get() + 3 * ((area.top + y) * image.width + area.left));
    }
  }
  // The codec reported damage for which it makes pixels up.
  return source.words;
}

// True if libtiff reads the directory as the probe did: with other sizes it would use more memory
// than was reserved, or write past the end of a buffer.
bool IsAsProbed(TIFF* tiff, const TiffPage& page) {
  const auto is = [tiff](uint32_t tag, auto read, int64_t probed) {
    return TIFFGetFieldDefaulted(tiff, tag, &read) != 0 && int64_t{read} == probed;
  };
  const tmsize_t block = page.tiled ? TIFFTileSize(tiff) : TIFFStripSize(tiff);
  const uint32_t blocks = page.tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
  uint16_t compression = 0;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
  return is(TIFFTAG_IMAGEWIDTH, uint32_t{0}, page.width) &&
         is(TIFFTAG_IMAGELENGTH, uint32_t{0}, page.height) &&
         is(TIFFTAG_BITSPERSAMPLE, uint16_t{0}, page.bits) &&
         is(TIFFTAG_SAMPLESPERPIXEL, uint16_t{0}, page.samples) &&
         is(TIFFTAG_PHOTOMETRIC, uint16_t{0}, static_cast<int64_t>(page.colours)) &&
         is(TIFFTAG_PLANARCONFIG, uint16_t{0},
            page.planes ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG) &&
         (compression == COMPRESSION_JPEG) == page.is_jpeg &&
         (TIFFIsTiled(tiff) != 0) == page.tiled &&
         (!page.tiled || (is(TIFFTAG_TILEWIDTH, uint32_t{0}, page.block_width) &&
                          is(TIFFTAG_TILELENGTH, uint32_t{0}, page.block_height))) &&
         blocks == page.blocks && block * (page.planes ? page.samples : 1) == page.block_bytes();
}

std::string Decode(Bytes encoded, const ImageInfo& info, const Rgb& background, RgbImage& image) {
  // No limits here: the probe has checked the caller's.
  constexpr ImageLimits kProbed = {.max_pixels = INT64_MAX,
                                   .max_side = INT32_MAX,
                                   .max_aspect_ratio = INT32_MAX,
                                   .max_jpeg_scans = INT32_MAX,
                                   .max_jpeg_scan_pixels = INT64_MAX,
                                   .max_metadata_bytes = INT64_MAX};
  const absl::StatusOr<TiffPage> page = ReadTiffPage(encoded, kProbed);
  if (!page.ok()) return "another directory than probed";
  Source source{.file = encoded, .at = 0, .words = {}};
  const Tiff tiff = Open(source, info.buffer_bytes);
  if (tiff == nullptr) return source.words.empty() ? "libtiff: not opened" : source.words;
  if (page->is_jpeg && page->colours == TiffColours::kYcbcr) {
    TIFFSetField(tiff.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  }
  if (!IsAsProbed(tiff.get(), *page)) return "libtiff read another directory than the probe";
  const SampleReader reader(tiff.get(), *page, background);
  if (!reader.sound()) return "a palette is missing";
  image = RgbImage::Allocate(info.height, info.width);
  return ReadBlocks(tiff.get(), *page, reader, source, image);
}

}  // namespace

absl::StatusOr<RgbImage> DecodeTiff(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options) {
  RgbImage image;
  FOVEA_RETURN_IF_ERROR(RunCodec([&] { return Decode(encoded, info, options.background, image); }));
  return image;
}

}  // namespace fovea
