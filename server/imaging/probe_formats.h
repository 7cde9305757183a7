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

// The same from the first bytes of a file (see PeekImage).
std::optional<ImageInfo> PeekJpeg(Bytes beginning);
std::optional<ImageInfo> PeekPng(Bytes beginning);
std::optional<ImageInfo> PeekWebp(Bytes beginning);

absl::Status Truncated();
absl::Status Corrupt(const char* what);
absl::Status MetadataTooLarge(const ImageLimits& limits);
absl::Status CheckSize(int64_t width, int64_t height, const ImageLimits& limits);

}  // namespace fovea
