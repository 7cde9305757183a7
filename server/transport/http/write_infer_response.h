// The Open Inference Protocol's answer with tensors in JSON, with Triton's binary tensors behind
// it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/clock.h"
#include "server/core/request.h"
#include "server/transport/http/output_forms.h"

namespace fovea {

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
