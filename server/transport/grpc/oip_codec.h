// The Open Inference Protocol's inference messages <-> Fovea's. It knows protobuf's messages and
// nothing of gRPC.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/core/clock.h"
#include "server/core/request.h"
#include "server/transport/grpc/encoded_message.h"
#include "server/transport/messages/received_bytes.h"

namespace inference {
class ModelInferRequest;
}

namespace fovea {

// Reads an encoded inference.ModelInferRequest into `request`, whose deadline is the call's and
// whose stages have started. The tensors share the received bytes. The id is there even where the
// rest is refused, if it could be read.
//
// Everything is checked that can be without knowing the model: tensors are whole, of known types,
// of 1 to limits::kMaxTensorRank positive dimensions, as long as their shapes say, and named once.
// The deadline becomes the earlier of the call's and the "timeout" parameter's (microseconds, from
// `request`'s start).
//
// INVALID_ARGUMENT: malformed bytes, or a rule above is broken, or a URL is handed over instead of
// an image; RESOURCE_EXHAUSTED: more beside the tensors than limits::kMaxRequestHeaderBytes, or
// more typed contents than ReadTensorContents takes; ReadSharedInput's of inputs in shared memory;
// and what `check_model` says.
absl::Status ReadModelInferRequest(const ReceivedBytes& message, CheckModel check_model,
                                   InferenceRequest* request);

// How an answer is written, whatever its messages.
using WriteMessage = absl::StatusOr<EncodedMessage> (*)(InferenceResponse& response,
                                                        const Clock& clock, size_t max_bytes);

// An encoded inference.ModelInferResponse: raw contents (empty of outputs in shared memory), typed
// ones where `response` says so and all its outputs' types have them, and the receipt as
// parameters. Ends the encode stage of `response`'s receipt and takes the outputs'
// data. What CheckAnswerBytes says of the answer without its receipt, and then it takes nothing.
absl::StatusOr<EncodedMessage> WriteModelInferResponse(InferenceResponse& response,
                                                       const Clock& clock,
                                                       size_t max_bytes = limits::kMaxAnswerBytes);

// One answer of a stream: an encoded inference.ModelStreamInferResponse. A request has one answer,
// which is therefore its last, and says so as Triton's do (triton_final_response); errors too.
EncodedMessage WriteStreamResponse(EncodedMessage infer_response);

// An error has no field for its code: Triton's clients show the text alone. So the text ends in
// " [CODE reason]", and the parameters "fovea.code" and "fovea.reason" of the (otherwise empty)
// response beside it say the same to programs. `code` is the name of gRPC's code.
EncodedMessage WriteStreamError(std::string_view message, std::string_view code,
                                std::string_view reason, std::string_view id);

}  // namespace fovea
