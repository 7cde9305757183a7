// What an accepted request will make the server hold.
#pragma once

#include <cstdint>

#include "server/admission/request_rules.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"

namespace fovea {

// Bytes at most, beside the message and what decoding an image takes while it lasts: pixels at the
// model's size where they have to be made (`decoded`), the model's outputs, and the answer. `input`
// is what CheckRequest has found `request` to have.
int64_t MemoryNeed(const InferenceRequest& request, const AcceptedInput& input,
                   const ModelView& model, bool decoded);

}  // namespace fovea
