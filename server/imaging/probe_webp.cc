// WebP container specification (RFC 9649): RIFF chunks, of which a still image has one "VP8 " or
// "VP8L", either alone or after a "VP8X" that describes the whole. An animation has an "ANMF" for
// each frame; the first one is its picture.
#include <algorithm>
#include <optional>

#include "base/exif.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr size_t kFileHeaderBytes = 12;
constexpr size_t kChunkHeaderBytes = 8;
constexpr uint8_t kAnimated = 0x02;  // of VP8X's flags
constexpr uint8_t kTransparent = 0x10;
constexpr size_t kFrameHeaderBytes = 16;  // of ANMF

struct Size {
  int64_t width, height;
  bool operator==(const Size&) const = default;
};

// RFC 6386, section 9.1: a key frame's tag, start code and size.
std::optional<Size> LossySize(Bytes data) {
  if (data.size() < 10 || (U8(data, 0) & 1) != 0 || !StartsWith(data, 3, "\x9d\x01\x2a")) return {};
  return Size{U16Little(data, 6) & 0x3fff, U16Little(data, 8) & 0x3fff};
}

// RFC 9649, section 3.4: a signature, then 14 bits of each side less one, then whether it is
// transparent.
std::optional<Size> LosslessSize(Bytes data) {
  if (data.size() < 5 || U8(data, 0) != 0x2f) return {};
  const uint32_t bits = U32Little(data, 1);
  return Size{(bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1};
}
bool LosslessIsTransparent(Bytes data) { return (U32Little(data, 1) >> 28 & 1) != 0; }

struct Chunk {
  std::string_view type;
  Bytes data;
};

// The chunk at `*at`, which goes past it. Nothing where it does not lie within `file`.
std::optional<Chunk> NextChunk(Bytes file, size_t* at) {
  if (file.size() - *at < kChunkHeaderBytes) return std::nullopt;
  const std::string_view type(reinterpret_cast<const char*>(file.data()) + *at, 4);
  const uint64_t length = U32Little(file, *at + 4);
  *at += kChunkHeaderBytes;
  if (length > file.size() - *at) return std::nullopt;
  const Bytes data = file.subspan(*at, length);
  *at += std::min<uint64_t>(length + length % 2, file.size() - *at);
  return Chunk{type, data};
}

}  // namespace

std::optional<WebpFrame> ReadWebpFrame(Bytes data) {
  if (data.size() < kFrameHeaderBytes) return std::nullopt;
  WebpFrame frame{.image = data.subspan(kFrameHeaderBytes),
                  .left = static_cast<int>(2 * U24Little(data, 0)),
                  .top = static_cast<int>(2 * U24Little(data, 3)),
                  .width = static_cast<int>(U24Little(data, 6) + 1),
                  .height = static_cast<int>(U24Little(data, 9) + 1)};
  for (size_t at = 0; at < frame.image.size();) {
    const std::optional<Chunk> chunk = NextChunk(frame.image, &at);
    if (!chunk) return std::nullopt;
    const bool lossy = chunk->type == "VP8 ";
    if (!lossy && chunk->type != "VP8L") continue;
    const std::optional<Size> size = lossy ? LossySize(chunk->data) : LosslessSize(chunk->data);
    if (size != Size{frame.width, frame.height}) return std::nullopt;
    frame.image = frame.image.first(at);
    return frame;
  }
  return std::nullopt;
}

std::optional<WebpFrame> FirstWebpFrame(Bytes file) {
  for (size_t at = kFileHeaderBytes; at < file.size();) {
    const std::optional<Chunk> chunk = NextChunk(file, &at);
    if (!chunk) return std::nullopt;
    if (chunk->type == "ANMF") return ReadWebpFrame(chunk->data);
  }
  return std::nullopt;
}

std::optional<ImageInfo> PeekWebp(Bytes beginning) {
  constexpr size_t kData = kFileHeaderBytes + kChunkHeaderBytes;
  if (beginning.size() < kData + 10) return std::nullopt;
  const Bytes data = beginning.subspan(kData);
  std::optional<Size> size;
  if (StartsWith(beginning, kFileHeaderBytes, "VP8X")) {
    size = Size{int64_t{U24Little(data, 4)} + 1, int64_t{U24Little(data, 7)} + 1};
  } else if (StartsWith(beginning, kFileHeaderBytes, "VP8 ")) {
    size = LossySize(data);
  } else if (StartsWith(beginning, kFileHeaderBytes, "VP8L")) {
    size = LosslessSize(data);
  }
  if (!size || !CheckSize(size->width, size->height, {}).ok()) return std::nullopt;
  ImageInfo info{.format = ImageFormat::kWebp};
  info.width = static_cast<int>(size->width);
  info.height = static_cast<int>(size->height);
  return info;
}

absl::StatusOr<ImageInfo> ProbeWebp(Bytes encoded, const ImageLimits& limits) {
  const uint64_t file_bytes = uint64_t{U32Little(encoded, 4)} + kChunkHeaderBytes;
  if (file_bytes > encoded.size()) return Truncated();
  const Bytes file = encoded.first(file_bytes);

  ImageInfo info{.format = ImageFormat::kWebp};
  info.encoded_bytes = static_cast<int64_t>(file_bytes);
  std::optional<Size> canvas;
  std::optional<Size> frame;
  bool animated = false;
  bool transparent = false;
  bool has_exif = false;
  int64_t metadata_bytes = 0;
  for (size_t at = kFileHeaderBytes; at < file.size();) {
    const std::optional<Chunk> chunk = NextChunk(file, &at);
    if (!chunk) return Corrupt("a chunk's length");
    const auto& [type, data] = *chunk;
    if (type == "VP8X") {
      if (canvas || frame || data.size() < 10) return Corrupt("its header");
      animated = (U8(data, 0) & kAnimated) != 0;
      transparent |= (U8(data, 0) & kTransparent) != 0;
      canvas = Size{int64_t{U24Little(data, 4)} + 1, int64_t{U24Little(data, 7)} + 1};
      FOVEA_RETURN_IF_ERROR(CheckSize(canvas->width, canvas->height, limits));
    } else if (type == "VP8 " || type == "VP8L") {
      if (frame || animated) return Corrupt("it holds two images");
      frame = type == "VP8 " ? LossySize(data) : LosslessSize(data);
      if (!frame || (canvas && *frame != *canvas)) return Corrupt("its size");
      if (type == "VP8L") {
        info.lossless = true;
        transparent |= LosslessIsTransparent(data);
      }
      FOVEA_RETURN_IF_ERROR(CheckSize(frame->width, frame->height, limits));
    } else if (type == "ANMF") {
      if (!animated) return Corrupt("its header");
      if (frame) continue;
      const std::optional<WebpFrame> first = ReadWebpFrame(data);
      if (!first || first->left + first->width > canvas->width ||
          first->top + first->height > canvas->height) {
        return Corrupt("its first frame");
      }
      frame = canvas;
      // Decoded as RGBA, and laid on the canvas.
      transparent = info.lossless = true;
    } else if (type == "ALPH") {
      transparent = info.lossless = true;
    } else {
      metadata_bytes += static_cast<int64_t>(data.size() + kChunkHeaderBytes);
      if (metadata_bytes > limits.max_metadata_bytes) return MetadataTooLarge(limits);
      if (type == "EXIF" && !has_exif) {
        has_exif = true;
        info.orientation = ExifOrientation(data);
      }
    }
  }
  if (!frame) return Corrupt("it holds no pixels");
  if (transparent) info.components = 4;
  info.width = static_cast<int>(frame->width);
  info.height = static_cast<int>(frame->height);
  return info;
}

}  // namespace fovea
