// One header reader per format, and the checks that they share. Only for probe*.cc and
// png_chunks.cc.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "base/status.h"
#include "server/imaging/image.h"

namespace fovea {

// Each expects its format's magic at the start and fills everything but `decode_bytes`.
absl::StatusOr<ImageInfo> ProbeJpeg(Bytes encoded, const ImageLimits& limits);
absl::StatusOr<ImageInfo> ProbePng(Bytes encoded, const ImageLimits& limits);
absl::StatusOr<ImageInfo> ProbeWebp(Bytes encoded, const ImageLimits& limits);
absl::StatusOr<ImageInfo> ProbeGif(Bytes encoded, const ImageLimits& limits);
absl::StatusOr<ImageInfo> ProbeBmp(Bytes encoded, const ImageLimits& limits);
absl::StatusOr<ImageInfo> ProbeTiff(Bytes encoded, const ImageLimits& limits);
absl::StatusOr<ImageInfo> ProbeAvif(Bytes encoded, const ImageLimits& limits);

// Of a JPEG file within a TIFF file, whose tables may lie outside of it: the size, scans and
// coefficients, whatever its shape and its components. Within the limits on scans.
absl::StatusOr<ImageInfo> ProbeJpegPart(Bytes encoded, const ImageLimits& limits);

// The same from the first bytes of a file (see PeekImage).
std::optional<ImageInfo> PeekJpeg(Bytes beginning);
std::optional<ImageInfo> PeekPng(Bytes beginning);
std::optional<ImageInfo> PeekWebp(Bytes beginning);
std::optional<ImageInfo> PeekGif(Bytes beginning);
std::optional<ImageInfo> PeekBmp(Bytes beginning);
std::optional<ImageInfo> PeekTiff(Bytes beginning);
std::optional<ImageInfo> PeekAvif(Bytes beginning);

// The refusal of data that begin as none of the formats do: says what they are, where that is
// known, and what to do.
absl::Status UnknownKind(Bytes encoded);

// The still picture of a WebP animation: its first frame, and where it lies on the canvas.
struct WebpFrame {
  Bytes image;  // ALPH and VP8, or VP8L, with their headers
  int left = 0, top = 0, width = 0, height = 0;
};
std::optional<WebpFrame> ReadWebpFrame(Bytes data);  // of an ANMF chunk
std::optional<WebpFrame> FirstWebpFrame(Bytes file);

absl::Status Truncated();
absl::Status Corrupt(const char* what);
absl::Status MetadataTooLarge(const ImageLimits& limits);
absl::Status CheckSize(int64_t width, int64_t height, const ImageLimits& limits);

}  // namespace fovea
