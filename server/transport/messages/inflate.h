// Compressed messages and bodies, unpacked within a bound.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/core/request_memory.h"
#include "server/transport/messages/received_bytes.h"

namespace fovea {

// Unpacks a gzip file or a zlib stream (what HTTP and gRPC call "gzip" and "deflate"), told apart
// by its header. RESOURCE_EXHAUSTED request.decompressed_too_large: to more than `max_bytes`;
// INVALID_ARGUMENT request.bad_compression: it is neither, or something follows it; and what
// RequestMemory::Take says, where there is `memory` to be counted in.
absl::StatusOr<ReceivedBytes> Inflate(const ReceivedBytes& packed, int64_t max_bytes,
                                      RequestMemory* memory);

}  // namespace fovea
