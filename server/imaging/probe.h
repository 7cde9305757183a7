// Reads an image's header. Nothing is decoded and nothing is allocated for pixels before this said
// yes.
#pragma once

#include <cstddef>
#include <optional>

#include "base/bytes.h"
#include "base/status.h"
#include "server/imaging/image.h"

namespace fovea {

// The header of an encoded image that is complete and within `limits`.
// Thread-safe.
//
// The type is told by the first bytes alone. The file's structure is walked to its end (segments,
// chunks; not the compressed pixels in them), so a file that stops short anywhere is found here.
// What follows the end is ignored.
//
// Errors, with their reason (faults 13 to 18, 22, 24):
//   RESOURCE_EXHAUSTED image.too_many_bytes
//   INVALID_ARGUMENT   image.empty                  no bytes at all
//                      image.unsupported_type       no format that is read, whose name the message
//                                                   says where it is known, or a form of one that
//                                                   is not decoded
//                      image.truncated              the file stops before its end
//                      image.corrupt                the structure makes no sense
//                      image.too_many_pixels, image.too_small, image.extreme_aspect_ratio,
//                      image.too_many_scans, image.metadata_too_large
absl::StatusOr<ImageInfo> ProbeImage(Bytes encoded, const ImageLimits& limits);

// What decoding `info` holds at its peak, its sides halved so many times (ImageInfo::decode_bytes
// is of none).
int64_t DecodeBytes(const ImageInfo& info, int halvings);

// What the first bytes of a file tell: its format, sides and, for a JPEG, whether it is progressive
// (`scans` is 2 then, 1 otherwise) and how it is turned; the other fields are left alone. Nothing
// where they do not reach so far or make no sense, which is for ProbeImage to say. Thread-safe.
std::optional<ImageInfo> PeekImage(Bytes beginning);
inline constexpr size_t kPeekBytes = 64 << 10;  // of a photograph's file, that tell its size

}  // namespace fovea
