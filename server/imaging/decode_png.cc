// libpng. It leaves its functions by longjmp when it fails, past the destructors of whatever C++
// lies between: so nothing with a destructor lives between PngReader::Try and libpng, and what
// libpng calls back keeps no object while it reports an error.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/pixel_format.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"
#include "server/imaging/png_chunks.h"

namespace fovea {
namespace {

// What libpng is to see of a file, one byte after the other: the chunks that make the pixels. Text,
// profiles, gamma and the like cannot make it fail, allocate or warn.
class EssentialBytes {
 public:
  // `file` is one that the probe accepted.
  explicit EssentialBytes(Bytes file) : file_(file), unread_(file.first(kPngSignature.size())) {}

  // So many bytes more; any number, until this is said.
  void Allow(size_t bytes) { allowed_ = bytes; }

  // Fills `to`. False where the chunks, or what is allowed, end before.
  bool Read(std::span<std::byte> to) {
    if (to.size() > allowed_) return false;
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
    while (next_ < file_.size()) {
      const absl::StatusOr<PngChunk> chunk = ReadPngChunk(file_, next_);
      if (!chunk.ok()) return false;
      next_ += chunk->whole.size();
      if (!chunk->critical() && chunk->type != "tRNS") continue;
      unread_ = chunk->whole;
      return true;
    }
    return false;
  }

  Bytes file_;
  Bytes unread_;  // of the chunk that is being read
  size_t allowed_ = SIZE_MAX;
  size_t next_ = kPngSignature.size();  // where the chunk after it starts
};

constexpr size_t kReadAheadBytes = 16 << 10;  // libpng reads eight kilobytes at a time

// One picture's way through libpng. Every function returns libpng's words where it fails, and
// nothing where it does not.
class PngReader {
 public:
  // Throws std::bad_alloc.
  PngReader(Bytes encoded, const ImageInfo& info) : source_(encoded) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, /*warn_fn=*/Ignore);
    if (png_ != nullptr) header_ = png_create_info_struct(png_);
    if (header_ == nullptr) {
      Destroy();
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, this, Read);
    png_set_user_limits(png_, info.width, info.height);
    png_set_chunk_cache_max(png_, 1);                // no chunk is kept
    png_set_chunk_malloc_max(png_, encoded.size());  // no chunk is longer than its file
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);  // the transparency's, too
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

  // One pass over `rows` rows that lie one after the other from `pixels`. In an interlaced picture
  // each pass adds its pixels to those of the passes before.
  std::string ReadRows(uint8_t* pixels, int rows) {
    return Try([this, pixels, rows] {
      const size_t row_bytes = png_get_rowbytes(png_, header_);
      for (int y = 0; y < rows; ++y) {
        // With the last row libpng unpacks everything that the stream still holds, which a few
        // kilobytes may make gigabytes of.
        if (--rows_left_ == 0) source_.Allow(2 * row_bytes + kReadAheadBytes);
        png_read_row(png_, pixels + y * row_bytes, nullptr);
      }
      if (rows_left_ == 0) source_.Allow(SIZE_MAX);
    });
  }

  // What follows the pixels, to the end of the file.
  std::string ReadEnd() {
    return Try([this] { png_read_end(png_, nullptr); });
  }

 private:
  static PngReader& Of(void* reader) { return *static_cast<PngReader*>(reader); }

  [[noreturn]] static void Fail(png_structp png, png_const_charp words) {
    PngReader& reader = Of(png_get_error_ptr(png));
    std::strncpy(reader.words_, words, sizeof(reader.words_) - 1);
    png_longjmp(png, 1);
  }
  static void Ignore(png_structp, png_const_charp) {}

  static void Read(png_structp png, png_bytep to, size_t size) {
    PngReader& reader = Of(png_get_io_ptr(png));
    if (!reader.source_.Read({reinterpret_cast<std::byte*>(to), size})) {
      png_error(png, "the chunks end before IEND, or hold more than the pixels");
    }
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
  PngReader reader(encoded, info);
  std::string failure = reader.ReadHeader();
  if (!failure.empty()) return failure;
  if (!reader.Is(info.width, info.height)) return "libpng read another size than the probe";
  image = RgbImage::Allocate(info.height, info.width);
  const int channels = reader.channels();
  FOVEA_CHECK(channels == 3 || channels == 4);
  failure = channels == 3 ? ReadOpaque(reader, image) : ReadTransparent(reader, background, image);
  return failure.empty() ? reader.ReadEnd() : failure;
}

}  // namespace

absl::StatusOr<RgbImage> DecodePng(Bytes encoded, const ImageInfo& info,
                                   const DecodeOptions& options) {
  RgbImage image;
  FOVEA_RETURN_IF_ERROR(RunCodec([&] { return Decode(encoded, info, options.background, image); }));
  return image;
}

}  // namespace fovea
