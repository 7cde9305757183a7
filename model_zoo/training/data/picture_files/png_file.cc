// libpng leaves its functions by longjmp when it fails, past the destructors of whatever C++ lies
// between: so nothing with a destructor lives between Try and libpng.
#include "model_zoo/training/data/picture_files/png_file.h"

#include <png.h>

#include <bit>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

namespace fovea::models::training {
namespace {

constexpr size_t kMaxChunkBytes = 8 << 20;  // of text, profiles and the like

using namespace std::string_view_literals;
constexpr std::string_view kIgnoredChunks =  // each with a byte for libpng's own use
    "bKGD\0cHRM\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0"
    "tEXt\0tIME\0zTXt\0"sv;

class PngReader {
 public:
  PngReader(std::span<const uint8_t> file, int max_side) : unread_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, Ignore);
    if (png_ != nullptr) header_ = png_create_info_struct(png_);
    if (header_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, this, Read);
    png_set_user_limits(png_, max_side, max_side);
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    // Profiles, gamma, text and the like are not looked at: they change no pixel here, and must
    // not make a picture fail.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER,
                                reinterpret_cast<png_const_bytep>(kIgnoredChunks.data()),
                                static_cast<int>(kIgnoredChunks.size() / 5));
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &header_, nullptr); }

  const char* words() const { return words_; }
  int width() const { return static_cast<int>(png_get_image_width(png_, header_)); }
  int height() const { return static_cast<int>(png_get_image_height(png_, header_)); }
  int channels() const { return png_get_channels(png_, header_); }
  int depth() const { return png_get_bit_depth(png_, header_); }

  // Each is false where libpng has failed.
  bool ReadHeader() {
    return Try([this] {
      // A palette or a transparency that libpng would do without is an error.
      png_set_benign_errors(png_, 0);
      png_read_info(png_, header_);
      png_set_benign_errors(png_, 1);
    });
  }
  bool ChooseLevels() {
    return Try([this] {
      png_set_packing(png_);  // a byte for each level
      if (std::endian::native == std::endian::little) png_set_swap(png_);
      passes_ = png_set_interlace_handling(png_);
      png_read_update_info(png_, header_);
    });
  }
  bool ReadRows(uint8_t* pixels, size_t step) {
    return Try([this, pixels, step] {
      const int rows = height();
      for (int pass = 0; pass < passes_; ++pass) {
        for (int y = 0; y < rows; ++y) png_read_row(png_, pixels + y * step, nullptr);
      }
      png_read_end(png_, header_);
    });
  }

 private:
  static PngReader& Of(void* reader) { return *static_cast<PngReader*>(reader); }

  [[noreturn]] static void Fail(png_structp png, png_const_charp words) {
    PngReader& reader = Of(png_get_error_ptr(png));
    std::snprintf(reader.words_, sizeof(reader.words_), "%s", words);
    png_longjmp(png, 1);
  }
  static void Ignore(png_structp, png_const_charp) {}

  static void Read(png_structp png, png_bytep to, size_t size) {
    PngReader& reader = Of(png_get_io_ptr(png));
    if (size > reader.unread_.size()) png_error(png, "the file ends too early");
    std::memcpy(to, reader.unread_.data(), size);
    reader.unread_ = reader.unread_.subspan(size);
  }

  template <typename Step>
  bool Try(const Step& step) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    step();
    return true;
  }

  std::span<const uint8_t> unread_;
  png_structp png_ = nullptr;
  png_infop header_ = nullptr;
  int passes_ = 1;
  char words_[128] = {};
};

// False where libpng has failed.
bool Write(png_structp png, png_infop header, std::FILE* to, const cv::Mat& pixels) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_init_io(png, to);
  png_set_IHDR(png, header, pixels.cols, pixels.rows, pixels.depth() == CV_16U ? 16 : 8,
               pixels.channels() == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, header);
  if (pixels.depth() == CV_16U && std::endian::native == std::endian::little) png_set_swap(png);
  for (int y = 0; y < pixels.rows; ++y) png_write_row(png, pixels.ptr<uint8_t>(y));
  png_write_end(png, nullptr);
  return std::fflush(to) == 0;
}

}  // namespace

DecodedPng DecodeLevelsPng(std::span<const uint8_t> file, int64_t max_pixels, int max_side) {
  PngReader reader(file, max_side);
  if (!reader.ReadHeader()) return {reader.words()};
  if (int64_t{reader.width()} * reader.height() > max_pixels) return {"it has too many pixels"};
  if (!reader.ChooseLevels()) return {reader.words()};
  DecodedPng decoded;
  const int depth = reader.depth() == 16 ? CV_16U : CV_8U;
  decoded.pixels.create(reader.height(), reader.width(), CV_MAKETYPE(depth, reader.channels()));
  if (!reader.ReadRows(decoded.pixels.data, decoded.pixels.step)) return {reader.words()};
  return decoded;
}

std::string EncodePng(const std::string& file, const cv::Mat& pixels) {
  struct Close {
    void operator()(std::FILE* open) const { std::fclose(open); }
  };
  const std::unique_ptr<std::FILE, Close> to(std::fopen(file.c_str(), "wb"));
  if (to == nullptr) return std::strerror(errno);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop header = png != nullptr ? png_create_info_struct(png) : nullptr;
  if (header == nullptr) {
    png_destroy_write_struct(&png, nullptr);
    throw std::bad_alloc();
  }
  const bool written = Write(png, header, to.get(), pixels);
  png_destroy_write_struct(&png, &header);
  return written ? "" : "libpng or the disk refused";
}

}  // namespace fovea::models::training
