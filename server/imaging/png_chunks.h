// The parts that a PNG file is made of (ISO/IEC 15948, section 5): a signature, then chunks of
// length, type, data and checksum, the last one IEND. Only for probe_png.cc and decode_png.cc.
#pragma once

#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace fovea {

inline constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

// A chunk; `whole` also covers its length, type and checksum.
struct PngChunk {
  std::string_view type;
  Bytes data;
  Bytes whole;

  // A decoder that does not know a critical chunk cannot show the image.
  bool critical() const { return (type[0] & 0x20) == 0; }
};

// The chunk that starts at `at`, not past the end of `file`. Its checksum is not looked at.
// INVALID_ARGUMENT image.truncated, image.corrupt.
absl::StatusOr<PngChunk> ReadPngChunk(Bytes file, size_t at);

// Does the checksum of the chunk match?
bool PngChecksumMatches(const PngChunk& chunk);

// A chunk with its length and checksum.
std::vector<std::byte> MakePngChunk(std::string_view type, Bytes data);

}  // namespace fovea
