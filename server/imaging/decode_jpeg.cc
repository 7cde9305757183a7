#include <turbojpeg.h>

#include <memory>
#include <new>

#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"
#include "server/imaging/pixel_format.h"

namespace fovea {
namespace {

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};

// One decompressor per thread, made at its first JPEG: making one allocates and fills tables.
tjhandle ThreadDecompressor() {
  thread_local const std::unique_ptr<void, Destroy> handle(tjInitDecompress());
  if (handle == nullptr) throw std::bad_alloc();
  return handle.get();
}

// The first warning ends the decoding: TurboJPEG otherwise goes on past damage and past the end of
// the data, and leaves rows as it found them. (TJFLAG_LIMITSCANS stops at 500 scans; the probe's
// limit comes first.)
constexpr int kFlags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;

std::string_view Decompress(Bytes encoded, const ImageInfo& info, int pixel_format,
                            uint8_t* pixels) {
  tjhandle handle = ThreadDecompressor();
  const auto* data = reinterpret_cast<const unsigned char*>(encoded.data());
  // tjDecompress2 scales to the size it is given: had it read another size than the probe did, it
  // would fill only a part. The header's return value does not count: it is an error where chroma
  // is sampled in an unusual way, too.
  int width = 0, height = 0, subsampling = 0, color_space = 0;
  tjDecompressHeader3(handle, data, encoded.size(), &width, &height, &subsampling, &color_space);
  if (width != info.width || height != info.height) return "sizes differ";
  if (tjDecompress2(handle, data, encoded.size(), pixels, width, /*pitch=*/0, height, pixel_format,
                    kFlags) != 0) {
    return tjGetErrorStr2(handle);
  }
  return {};
}

}  // namespace

absl::StatusOr<RgbImage> DecodeJpeg(Bytes encoded, const ImageInfo& info) {
  RgbImage image;
  FOVEA_RETURN_IF_ERROR(RunCodec([&]() -> std::string_view {
    image = RgbImage::Allocate(info.height, info.width);
    if (info.components != 4) return Decompress(encoded, info, TJPF_RGB, image.pixels.get());
    // TurboJPEG turns YCCK into CMYK, and no further.
    const auto cmyk = std::make_unique_for_overwrite<uint8_t[]>(4 * info.pixels());
    const std::string_view failure = Decompress(encoded, info, TJPF_CMYK, cmyk.get());
    if (failure.empty()) InvertedCmykToRgb(info.pixels(), cmyk.get(), image.pixels.get());
    return failure;
  }));
  return image;
}

}  // namespace fovea
