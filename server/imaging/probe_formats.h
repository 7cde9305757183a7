// One header reader per format, and the checks that they share. Only for probe*.cc and the
// decoders.
#pragma once

#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "server/core/status.h"
#include "server/imaging/bytes.h"
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

inline constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

// A PNG chunk; `whole` also covers its length, type and checksum.
struct PngChunk {
  std::string_view type;
  Bytes data;
  Bytes whole;
};

// Calls `visit` with every chunk up to and including IEND, and stops at the first error of its own
// or of `visit`. Checksums are left to the visitor. Returns the offset at which the image ends.
absl::StatusOr<size_t> WalkPng(Bytes encoded,
                               absl::FunctionRef<absl::Status(const PngChunk&)> visit);

// Does the checksum of the chunk match?
bool PngChecksumMatches(const PngChunk& chunk);

}  // namespace fovea
