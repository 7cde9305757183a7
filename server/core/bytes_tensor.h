// The elements of a BYTES tensor: each is its length, a little-endian uint32, and so many bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/core/tensor.h"

namespace fovea {

// Whether `data` is exactly `count` elements. Allocates nothing.
bool IsBytesTensor(const ScatteredBytes& data, int64_t count);

// The elements of `data` without their lengths, sharing its bytes; nothing where they are not
// exactly `count`.
std::optional<std::vector<ScatteredBytes>> SplitBytesTensor(const ScatteredBytes& data,
                                                            int64_t count);

}  // namespace fovea
