// libpng. It leaves its functions by longjmp when it fails, past the destructors of whatever C++
// lies between: so nothing with a destructor lives between PngReader::Try and libpng, and what
// libpng calls back keeps no object while it reports an error.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/pixel_format.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"
#include "server/imaging/png_chunks.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr int kGrey = 0, kColour = 2, kPalette = 3;  // colour types without an alpha channel

// Number of bytes of a tRNS chunk that mean something; nullopt if there are too few.
std::optional<size_t> MeaningfulBytes(const PngChunk& chunk, int colour_type,
                                      size_t palette_bytes) {
  if (colour_type == kPalette) return std::min(chunk.data.size(), palette_bytes / 3);
  const size_t wanted = colour_type == kGrey ? 2 : 6;
  if (chunk.data.size() < wanted) return std::nullopt;
  return wanted;
}

// The palette and transparency that apply to a file's pixels, by Pillow's rules: they may stand
// anywhere before the pixels, the last of several counts, and a colour type that has no use for
// them has none. libpng would refuse some of these files, and show others without their
// transparency.
struct PngColours {
  Bytes palette;                        // a chunk
  std::vector<std::byte> transparency;  // another; empty: none
};

// nullopt if a chunk is damaged.
std::optional<PngColours> FindColours(Bytes file) {
  const int colour_type = U8(file, kPngSignature.size() + 8 + 9);
  PngColours found;
  std::optional<PngChunk> palette, transparency;
  for (size_t at = kPngSignature.size(); at < file.size();) {
    const absl::StatusOr<PngChunk> chunk = ReadPngChunk(file, at);
    if (!chunk.ok() || chunk->type == "IDAT") break;
    at += chunk->whole.size();
    if (chunk->type != "PLTE" && chunk->type != "tRNS") continue;
    if (!PngChecksumMatches(*chunk)) return std::nullopt;
    (chunk->type == "PLTE" ? palette : transparency) = *chunk;
  }
  if (colour_type == kPalette && palette) found.palette = palette->whole;
  const bool none = colour_type != kGrey && colour_type != kColour && colour_type != kPalette;
  if (!transparency || none) return found;
  const std::optional<size_t> size =
      MeaningfulBytes(*transparency, colour_type, palette ? palette->data.size() : 0);
  if (!size) return std::nullopt;
  if (*size > 0) found.transparency = MakePngChunk("tRNS", transparency->data.first(*size));
  return found;
}

// The part of a file that libpng sees, as a stream of bytes: header, colours, and the chunks of
// pixels. Text, profiles, gamma and the like then cannot make it fail, allocate or warn.
class EssentialBytes {
 public:
  // `file` is one that the probe accepted.
  EssentialBytes(Bytes file, PngColours colours)
      : file_(file), colours_(std::move(colours)), unread_(file.first(kPngSignature.size())) {}

  // So many bytes more; any number, until this is said.
  void Allow(size_t bytes) { allowed_ = bytes; }
  bool passed_allowance() const { return passed_allowance_; }

  // Fills `to`. False where the chunks, or what is allowed, end before.
  bool Read(std::span<std::byte> to) {
    if (to.size() > allowed_) {
      passed_allowance_ = true;
      return false;
    }
    allowed_ -= to.size();
    while (!to.empty()) {
      if (unread_.empty() && !NextChunk()) return false;
      const size_t size = std::min(to.size(), unread_.size());
      std::memcpy(to.data(), unread_.data(), size);
      unread_ = unread_.subspan(size);
      to = to.subspan(size);
    }
    return true;
  }

 private:
  bool NextChunk() {
    // Inserted after the header.
    if (next_ > kPngSignature.size() && !std::exchange(gave_palette_, true)) {
      unread_ = colours_.palette;
      if (!unread_.empty()) return true;
    }
    if (next_ > kPngSignature.size() && !std::exchange(gave_transparency_, true)) {
      unread_ = colours_.transparency;
      if (!unread_.empty()) return true;
    }
    while (next_ < file_.size()) {
      const absl::StatusOr<PngChunk> chunk = ReadPngChunk(file_, next_);
      if (!chunk.ok()) return false;
      next_ += chunk->whole.size();
      if (!chunk->critical() || chunk->type == "PLTE") continue;
      unread_ = chunk->whole;
      return true;
    }
    return false;
  }

  const Bytes file_;
  const PngColours colours_;
  bool gave_palette_ = false, gave_transparency_ = false;
  Bytes unread_;  // of the chunk that is being read
  size_t allowed_ = SIZE_MAX;
  bool passed_allowance_ = false;
  size_t next_ = kPngSignature.size();  // where the chunk after it starts
};

// True if the checksums of all IDAT chunks are right.
bool PixelChecksumsMatch(Bytes file) {
  for (size_t at = kPngSignature.size(); at < file.size();) {
    const absl::StatusOr<PngChunk> chunk = ReadPngChunk(file, at);
    if (!chunk.ok()) break;
    at += chunk->whole.size();
    if (chunk->type == "IDAT" && !PngChecksumMatches(*chunk)) return false;
  }
  return true;
}

constexpr size_t kReadAheadBytes = 16 << 10;  // libpng reads eight kilobytes at a time

// One picture's way through libpng. Every function returns libpng's words where it fails, and
// nothing where it does not.
class PngReader {
 public:
  // Throws std::bad_alloc.
  PngReader(Bytes encoded, PngColours colours, const ImageInfo& info)
      : source_(encoded, std::move(colours)) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, Warn);
    if (png_ != nullptr) header_ = png_create_info_struct(png_);
    if (header_ == nullptr) {
      Destroy();
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, this, Read);
    png_set_user_limits(png_, info.width, info.height);
    png_set_chunk_cache_max(png_, 1);                // no chunk is kept
    png_set_chunk_malloc_max(png_, encoded.size());  // no chunk is longer than its file
    // The pixels are verified by their own checksum, at the end of the compressed data.
    png_set_crc_action(png_, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
    // Some writers declare a smaller window than their data refer back to.
    png_set_option(png_, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { Destroy(); }

  // Everything before the pixels; sets them up to come as 8-bit RGB or RGBA.
  std::string ReadHeader() {
    return Try([this] {
      // A palette or a transparency that libpng would do without is an error here.
      png_set_benign_errors(png_, 0);
      png_read_info(png_, header_);
      // Whereas more data than there are pixels is none.
      png_set_benign_errors(png_, 1);
      png_set_expand(png_);    // palettes, fewer than 8 bits, a transparent colour
      png_set_scale_16(png_);  // rounded
      png_set_gray_to_rgb(png_);
      passes_ = png_set_interlace_handling(png_);
      png_read_update_info(png_, header_);
      rows_left_ = size_t{png_get_image_height(png_, header_)} * passes_;
    });
  }

  bool Is(int width, int height) const {
    return png_get_image_width(png_, header_) == static_cast<png_uint_32>(width) &&
           png_get_image_height(png_, header_) == static_cast<png_uint_32>(height);
  }
  int channels() const { return png_get_channels(png_, header_); }
  int passes() const { return passes_; }

  // True if every pixel was read, but something is wrong behind them: their checksum is missing.
  bool doubtful() const { return doubtful_; }
  bool wrong_checksum() const { return wrong_checksum_; }

  // One pass over `rows` rows that lie one after the other from `pixels`. In an interlaced picture
  // each pass adds its pixels to those of the passes before.
  std::string ReadRows(uint8_t* pixels, int rows) {
    std::string failure = Try([this, pixels, rows] {
      const size_t row_bytes = png_get_rowbytes(png_, header_);
      for (int y = 0; y < rows; ++y) {
        // With the last row libpng unpacks everything that the stream still holds, which a few
        // kilobytes may make gigabytes of.
        if (--rows_left_ == 0) source_.Allow(2 * row_bytes + kReadAheadBytes);
        png_read_row(png_, pixels + y * row_bytes, nullptr);
      }
    });
    if (failure.empty() || !AllRowsRead() || source_.passed_allowance()) return failure;
    doubtful_ = true;
    return {};
  }

 private:
  static PngReader& Of(void* reader) { return *static_cast<PngReader*>(reader); }

  [[noreturn]] static void Fail(png_structp png, png_const_charp words) {
    PngReader& reader = Of(png_get_error_ptr(png));
    std::strncpy(reader.words_, words, sizeof(reader.words_) - 1);
    png_longjmp(png, 1);
  }
  static void Warn(png_structp png, png_const_charp words) {
    // zlib's message for a wrong checksum.
    if (std::strstr(words, "incorrect data check") != nullptr) {
      Of(png_get_error_ptr(png)).wrong_checksum_ = true;
    }
  }

  static void Read(png_structp png, png_bytep to, size_t size) {
    PngReader& reader = Of(png_get_io_ptr(png));
    if (!reader.source_.Read({reinterpret_cast<std::byte*>(to), size})) {
      png_error(png, "the chunks end before IEND, or hold more than the pixels");
    }
  }

  // libpng counts a row once it has written it.
  bool AllRowsRead() const {
    return rows_left_ == 0 &&
           (passes_ > 1 ? png_get_current_pass_number(png_) >= passes_
                        : png_get_current_row_number(png_) >= png_get_image_height(png_, header_));
  }

  // Runs `step`, which calls libpng and nothing else.
  template <typename Step>
  std::string Try(const Step& step) {
    if (setjmp(png_jmpbuf(png_)) == 0) {
      step();
      return {};
    }
    return absl::StrCat("libpng: ", words_);
  }

  void Destroy() { png_destroy_read_struct(&png_, &header_, nullptr); }

  EssentialBytes source_;
  png_structp png_ = nullptr;
  png_infop header_ = nullptr;
  int passes_ = 1;
  size_t rows_left_ = 0;
  bool doubtful_ = false, wrong_checksum_ = false;
  char words_[128] = {};
};

std::unique_ptr<uint8_t[]> Buffer(size_t bytes) {
  return std::make_unique_for_overwrite<uint8_t[]>(bytes);
}

std::string ReadOpaque(PngReader& reader, RgbImage& image) {
  std::string failure;
  for (int pass = 0; failure.empty() && pass < reader.passes(); ++pass) {
    failure = reader.ReadRows(image.pixels.get(), image.height);
  }
  return failure;
}

// A row at a time; an interlaced picture is complete after its last pass only.
std::string ReadTransparent(PngReader& reader, const Rgb& background, RgbImage& image) {
  const size_t width = static_cast<size_t>(image.width);
  const int rows = reader.passes() > 1 ? image.height : 1;
  const auto rgba = Buffer(4 * width * rows);
  uint8_t* to = image.pixels.get();
  for (int top = 0; top < image.height; top += rows) {
    for (int pass = 0; pass < reader.passes(); ++pass) {
      std::string failure = reader.ReadRows(rgba.get(), rows);
      if (!failure.empty()) return failure;
    }
    RgbaOverBackground(width * rows, rgba.get(), background, to);
    to += 3 * width * rows;
  }
  return {};
}

std::string Decode(Bytes encoded, const ImageInfo& info, const Rgb& background, RgbImage& image) {
  std::optional<PngColours> colours = FindColours(encoded);
  if (!colours) return "a damaged palette or transparency";
  PngReader reader(encoded, *std::move(colours), info);
  std::string failure = reader.ReadHeader();
  if (!failure.empty()) return failure;
  if (!reader.Is(info.width, info.height)) return "libpng read another size than the probe";
  image = RgbImage::Allocate(info.height, info.width);
  const int channels = reader.channels();
  FOVEA_CHECK(channels == 3 || channels == 4);
  failure = channels == 3 ? ReadOpaque(reader, image) : ReadTransparent(reader, background, image);
  // Anything after the pixels is ignored.
  if (!failure.empty()) return failure;
  if (reader.wrong_checksum()) return "libpng: incorrect data check";
  if (reader.doubtful() && !PixelChecksumsMatch(encoded)) return "no checksum for its pixels";
  return {};
}

}  // namespace

absl::StatusOr<RgbImage> DecodePng(Bytes encoded, const ImageInfo& info,
                                   const DecodeOptions& options) {
  RgbImage image;
  const absl::Status status =
      RunCodec([&] { return Decode(encoded, info, options.background, image); });
  // The probe accepts a file that ends after any of its IDAT chunks.
  const bool ends = encoded.size() > 8 && StartsWith(encoded, encoded.size() - 8, "IEND");
  if (ReasonOf(status) == "image.corrupt" && !ends) return Truncated();
  FOVEA_RETURN_IF_ERROR(status);
  return image;
}

}  // namespace fovea
