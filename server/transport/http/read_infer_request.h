// The Open Inference Protocol's inference request in JSON, with Triton's binary tensors behind it.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "server/core/memory_budget.h"
#include "server/core/request.h"
#include "server/transport/http/output_forms.h"
#include "server/transport/messages/received_bytes.h"

namespace fovea {

// Reads a body whose first `json_bytes` are JSON, the rest the inputs that have a binary_data_size,
// in their order: those share its bytes, and numbers in JSON are converted. The model's name and
// version are `request`'s already; its deadline is the caller's and its stages have started.
// Everything that infer_rules.h knows is checked. `budget` counts what reading takes while it
// lasts. INVALID_ARGUMENT: it is no such JSON (a member that is read comes once, its number fits,
// all of it is UTF-8; members that are null or not known are skipped), or a rule is broken;
// RESOURCE_EXHAUSTED: more JSON than limits::kMaxJsonBytes; what RequestMemory::Take and
// `check_model` say.
absl::Status ReadInferRequest(const ReceivedBytes& body, size_t json_bytes, CheckModel check_model,
                              MemoryBudget& budget, InferenceRequest* request, OutputForms* forms);

}  // namespace fovea
