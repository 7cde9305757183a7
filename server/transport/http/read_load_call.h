// The body of a load, which may bring files in base64.
#pragma once

#include "absl/status/statusor.h"
#include "server/api/server_api.h"
#include "server/core/memory_budget.h"
#include "server/transport/http/http_exchange.h"

namespace fovea {

// What the body says, without the model's name. It is read piece by piece, so that a long text
// takes no more than its length a few times over; the files then count in `budget`, as LoadCall
// says. INVALID_ARGUMENT request.json: no JSON object, a name twice, 'parameters' that are no
// object; repository.file_encoding: no base64; RESOURCE_EXHAUSTED request.too_large;
// RequestMemory::Take's errors.
absl::StatusOr<LoadCall> ReadLoadCall(const HttpRequest& request, MemoryBudget& budget);

}  // namespace fovea
