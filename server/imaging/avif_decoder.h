// libavif, as the probe and the decoder of AVIF use it. Only for probe_avif.cc and decode_avif.cc.
#pragma once

#include <avif/avif.h>

#include <memory>
#include <new>

#include "base/bytes.h"
#include "server/imaging/image.h"

namespace fovea {

struct DestroyAvif {
  void operator()(avifDecoder* decoder) const { avifDecoderDestroy(decoder); }
};
using AvifDecoder = std::unique_ptr<avifDecoder, DestroyAvif>;

// What a context of dav1d takes besides its frames (measured: 405 KB): one each for colour and
// alpha, or one for each cell of a grid.
inline constexpr int64_t kAvifContextBytes = 512 * limits::kKiB;

// What becomes of the decoded frames: RGBA until the background has been blended in, and 8-bit
// copies of 16-bit planes before they become RGB.
inline int64_t AvifColourBytes(const ImageInfo& info) {
  const int64_t rgba = info.components == 4 ? 4 * info.pixels() : 0;
  const int64_t narrowed = info.bit_depth > 8 ? 4 * info.pixels() : 0;
  return rgba + narrowed;
}

// A decoder of `file`, which it does not copy, on this thread alone. Neither the file nor the AV1
// data in it may have more than `most_pixels`. Throws std::bad_alloc.
inline AvifDecoder OpenAvif(Bytes file, int64_t most_pixels) {
  AvifDecoder decoder(avifDecoderCreate());
  if (decoder == nullptr) throw std::bad_alloc();
  decoder->codecChoice = AVIF_CODEC_CHOICE_DAV1D;  // heeds the limit
  decoder->maxThreads = 1;
  decoder->ignoreExif = decoder->ignoreXMP = AVIF_TRUE;
  decoder->imageSizeLimit = static_cast<uint32_t>(most_pixels);
  decoder->imageDimensionLimit = limits::kMaxImageSide;
  decoder->imageCountLimit = 20'000;            // libavif lists the frames of an animation
  decoder->strictFlags = AVIF_STRICT_DISABLED;  // as Pillow
  if (avifDecoderSetIOMemory(decoder.get(), reinterpret_cast<const uint8_t*>(file.data()),
                             file.size()) != AVIF_RESULT_OK) {
    throw std::bad_alloc();
  }
  return decoder;
}

}  // namespace fovea
