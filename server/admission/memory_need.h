// What an accepted request will make the server hold.
#pragma once

#include <cstdint>

#include "server/core/model_catalog.h"

namespace fovea {

// Bytes at most for each image, beside the message and what decoding it takes while it lasts:
// pixels at the model's size where they have to be made (`decoded`), the model's outputs, and the
// results that are made of them (`result_bytes`).
int64_t MemoryPerImage(const ModelView& model, bool decoded, int64_t result_bytes);

}  // namespace fovea
