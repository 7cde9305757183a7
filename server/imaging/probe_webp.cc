// WebP container specification (RFC 9649): RIFF chunks, of which a still image has one "VP8 " or
// "VP8L", either alone or after a "VP8X" that describes the whole.
#include <optional>

#include "base/exif.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr size_t kFileHeaderBytes = 12;
constexpr size_t kChunkHeaderBytes = 8;
constexpr uint8_t kAnimated = 0x02;  // of VP8X's flags
constexpr uint8_t kTransparent = 0x10;
constexpr std::string_view kExif("Exif\0\0", 6);  // some writers keep JPEG's prefix

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

}  // namespace

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
  bool transparent = false;
  bool has_exif = false;
  int64_t metadata_bytes = 0;
  for (size_t at = kFileHeaderBytes; at < file.size();) {
    if (file.size() - at < kChunkHeaderBytes) return Corrupt("a chunk's header");
    const std::string_view type(reinterpret_cast<const char*>(file.data()) + at, 4);
    const uint64_t length = U32Little(file, at + 4);
    at += kChunkHeaderBytes;
    if (length > file.size() - at) return Corrupt("a chunk's length");
    const Bytes data = file.subspan(at, length);
    at += std::min<uint64_t>(length + length % 2, file.size() - at);

    if (type == "VP8X") {
      if (canvas || frame || data.size() < 10) return Corrupt("its header");
      if ((U8(data, 0) & kAnimated) != 0) {
        return InvalidArgument("image.animated", "animated WebP images are not accepted");
      }
      transparent |= (U8(data, 0) & kTransparent) != 0;
      canvas = Size{int64_t{U24Little(data, 4)} + 1, int64_t{U24Little(data, 7)} + 1};
      FOVEA_RETURN_IF_ERROR(CheckSize(canvas->width, canvas->height, limits));
    } else if (type == "VP8 " || type == "VP8L") {
      if (frame) return Corrupt("it holds two images");
      frame = type == "VP8 " ? LossySize(data) : LosslessSize(data);
      if (!frame || (canvas && *frame != *canvas)) return Corrupt("its size");
      if (type == "VP8L") {
        info.lossless = true;
        transparent |= LosslessIsTransparent(data);
      }
      FOVEA_RETURN_IF_ERROR(CheckSize(frame->width, frame->height, limits));
    } else if (type == "ANIM" || type == "ANMF") {
      return InvalidArgument("image.animated", "animated WebP images are not accepted");
    } else if (type == "ALPH") {
      transparent = info.lossless = true;
    } else {
      metadata_bytes += static_cast<int64_t>(data.size() + kChunkHeaderBytes);
      if (metadata_bytes > limits.max_metadata_bytes) return MetadataTooLarge(limits);
      if (type == "EXIF" && !has_exif) {
        has_exif = true;
        info.orientation =
            ExifOrientation(data.subspan(StartsWith(data, 0, kExif) ? kExif.size() : 0));
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
