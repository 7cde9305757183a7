#include <turbojpeg.h>

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/pixel_format.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"
#include "server/imaging/jpeg_scale.h"

namespace fovea {
namespace {

struct Destroy {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Decompressor = std::unique_ptr<void, Destroy>;

// One decompressor per thread, made at its first JPEG: making one allocates and fills tables.
thread_local Decompressor thread_decompressor;

// The first warning ends the decoding: TurboJPEG otherwise goes on past damage and past the end of
// the data, and leaves rows as it found them. (TJFLAG_LIMITSCANS stops at 500 scans; the probe's
// limit comes first.)
constexpr int kFlags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;

// What is to be made of a file.
struct Wanted {
  int pixel_format;
  int height, width;  // one of the sizes that the header's can be scaled to
};

// What TurboJPEG says went wrong; nothing when all pixels were written.
std::string Decompress(tjhandle handle, Bytes encoded, const ImageInfo& info, const Wanted& wanted,
                       uint8_t* pixels) {
  const auto* data = reinterpret_cast<const unsigned char*>(encoded.data());
  const auto failure = [&] { return absl::StrCat("TurboJPEG: ", tjGetErrorStr2(handle)); };
  // tjDecompress2 scales to the size it is given: had it read another size than the probe did, it
  // would fill only a part. The header's return value does not count: it is an error where chroma
  // is sampled in an unusual way, too.
  int width = 0, height = 0, subsampling = 0, color_space = 0;
  tjDecompressHeader3(handle, data, encoded.size(), &width, &height, &subsampling, &color_space);
  if (width != info.width || height != info.height) return failure();
  const int result = tjDecompress2(handle, data, encoded.size(), pixels, wanted.width, /*pitch=*/0,
                                   wanted.height, wanted.pixel_format, kFlags);
  return result == 0 ? std::string() : failure();
}

// A decompressor that met an error is not used again: an error in a header leaves TurboJPEG 2.1.5
// in the middle of that header, and every later image fails.
std::string DecompressOnThread(Bytes encoded, const ImageInfo& info, const Wanted& wanted,
                               uint8_t* pixels) {
  Decompressor handle = std::move(thread_decompressor);
  if (handle == nullptr) handle.reset(tjInitDecompress());
  if (handle == nullptr) throw std::bad_alloc();
  std::string failure = Decompress(handle.get(), encoded, info, wanted, pixels);
  if (failure.empty()) thread_decompressor = std::move(handle);
  return failure;
}

}  // namespace

absl::StatusOr<RgbImage> DecodeJpeg(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options) {
  RgbImage image;
  FOVEA_RETURN_IF_ERROR(RunCodec([&] {
    const int height = DecodedSide(info.height, options.halvings);
    const int width = DecodedSide(info.width, options.halvings);
    image = RgbImage::Allocate(height, width);
    uint8_t* rgb = image.pixels.get();
    if (info.components != 4) {
      return DecompressOnThread(encoded, info, {TJPF_RGB, height, width}, rgb);
    }
    // TurboJPEG turns YCCK into CMYK, and no further.
    const int64_t pixels = int64_t{width} * height;
    const auto cmyk = std::make_unique_for_overwrite<uint8_t[]>(4 * pixels);
    std::string failure = DecompressOnThread(encoded, info, {TJPF_CMYK, height, width}, cmyk.get());
    if (failure.empty()) InvertedCmykToRgb(pixels, cmyk.get(), rgb);
    return failure;
  }));
  return image;
}

}  // namespace fovea
