// The Open Inference Protocol's inference messages in JSON, with Triton's binary tensors behind it.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/clock.h"
#include "server/core/memory_budget.h"
#include "server/core/request.h"
#include "server/transport/messages/received_bytes.h"

namespace fovea {

// How the outputs are to be written: as bytes behind the JSON, or as numbers in it.
struct OutputForms {
  bool binary = false;  // those that are not named
  std::vector<std::pair<std::string, bool>> named;

  bool IsBinary(const std::string& output) const;
};

// Reads a body whose first `json_bytes` are JSON, the rest the inputs that have a binary_data_size,
// in their order: those share its bytes, and numbers in JSON are converted. The model's name and
// version are `request`'s already; its deadline is the caller's and its stages have started.
// Everything that infer_rules.h knows is checked. `budget` counts what reading takes while it
// lasts. INVALID_ARGUMENT: it is no such JSON (a member that is read comes once, its number fits,
// all of it is UTF-8; members that are not known are skipped), or a rule is broken;
// RESOURCE_EXHAUSTED: more JSON than limits::kMaxJsonBytes; what RequestMemory::Take and
// `check_model` say.
absl::Status ReadInferRequest(const ReceivedBytes& body, size_t json_bytes, CheckModel check_model,
                              MemoryBudget& budget, InferenceRequest* request, OutputForms* forms);

struct InferBody {
  std::vector<std::string> parts;
  size_t json_bytes = 0;  // the first of them
  bool binary = false;    // something follows them
};

// What WriteInferResponse writes of numbers and texts takes at most.
int64_t JsonBytes(const InferenceResponse& response, const OutputForms& forms);

// An answer with tensors; the receipt is in its parameters. Ends the encode stage of the receipt
// and takes the outputs' data. RESOURCE_EXHAUSTED: as CheckAnswerBytes; INVALID_ARGUMENT
// request.output_form: an output whose numbers JSON does not have (a NaN, half precision, bytes
// that are no UTF-8).
absl::StatusOr<InferBody> WriteInferResponse(InferenceResponse& response, const OutputForms& forms,
                                             const Clock& clock, size_t max_bytes);

}  // namespace fovea
