#include "server/imaging/encode_png.h"

#include <png.h>

#include <bit>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "server/imaging/codec_status.h"

namespace fovea {
namespace {

struct Pixels {
  const void* data;
  ImageSize size;
  int colour_type;
  int bit_depth;
  int64_t row_bytes;
};

struct Destination {
  std::string bytes;
  bool out_of_memory = false;
};

void Append(png_structp png, png_bytep data, size_t size) {
  auto* const to = static_cast<Destination*>(png_get_io_ptr(png));
  try {
    to->bytes.append(reinterpret_cast<const char*>(data), size);
  } catch (const std::bad_alloc&) {
    to->out_of_memory = true;
  }
  if (to->out_of_memory) png_error(png, "out of memory");
}

void Nothing(png_structp /*png*/) {}

// In place of libpng's own, which writes to standard error. zlib's message where it lacks memory is
// among libpng's.
[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* const to = static_cast<Destination*>(png_get_error_ptr(png));
  to->out_of_memory |= std::strstr(message, "memory") != nullptr;
  png_longjmp(png, 1);
}
void OnWarning(png_structp /*png*/, png_const_charp /*message*/) {}

// False where libpng has failed. Nothing with a destructor lives across its long jumps.
bool Write(png_structp png, png_infop info, const Pixels& pixels) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_IHDR(png, info, static_cast<png_uint_32>(pixels.size.width),
               static_cast<png_uint_32>(pixels.size.height), pixels.bit_depth, pixels.colour_type,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  if (pixels.bit_depth == 16 && std::endian::native == std::endian::little) png_set_swap(png);
  const auto* row = static_cast<png_const_bytep>(pixels.data);
  for (int64_t y = 0; y < pixels.size.height; ++y, row += pixels.row_bytes) {
    png_write_row(png, row);
  }
  png_write_end(png, info);
  return true;
}

absl::StatusOr<std::string> Encode(const Pixels& pixels) {
  Destination to;
  const absl::Status status = RunCodec([&]() -> std::string {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &to, OnError, OnWarning);
    if (png == nullptr) throw std::bad_alloc();
    png_infop info = png_create_info_struct(png);
    if (info == nullptr) {
      png_destroy_write_struct(&png, nullptr);
      throw std::bad_alloc();
    }
    png_set_write_fn(png, &to, Append, Nothing);
    const bool written = Write(png, info, pixels);
    png_destroy_write_struct(&png, &info);
    if (to.out_of_memory) throw std::bad_alloc();
    if (!written) throw std::runtime_error("libpng could not write");
    return {};
  });
  if (!status.ok()) return status;
  return std::move(to.bytes);
}

template <typename Level>
absl::StatusOr<std::string> EncodeGrey(std::span<const Level> levels, const ImageSize& size) {
  FOVEA_CHECK(std::ssize(levels) == size.height * size.width);
  return Encode({levels.data(), size, PNG_COLOR_TYPE_GRAY, 8 * int{sizeof(Level)},
                 size.width * int64_t{sizeof(Level)}});
}

}  // namespace

absl::StatusOr<std::string> EncodePng(const RgbImage& image) {
  return Encode({image.pixels.get(),
                 {image.height, image.width},
                 PNG_COLOR_TYPE_RGB,
                 8,
                 int64_t{3} * image.width});
}

absl::StatusOr<std::string> EncodeGreyPng(std::span<const uint8_t> levels, const ImageSize& size) {
  return EncodeGrey(levels, size);
}

absl::StatusOr<std::string> EncodeGreyPng(std::span<const uint16_t> levels, const ImageSize& size) {
  return EncodeGrey(levels, size);
}

}  // namespace fovea
