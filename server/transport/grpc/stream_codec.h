// StreamImages' messages <-> Fovea's. It knows protobuf's messages and nothing of gRPC.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/core/clock.h"
#include "server/core/request.h"
#include "server/transport/grpc/encoded_message.h"
#include "server/transport/grpc/oip_codec.h"

namespace fovea {

// Of a stream's answers.
enum class AnswerOrder { kInOrder, kAsTheyCome };

// Reads an encoded fovea.v1.StreamImagesRequest into `request`, as ReadClassifyRequest and its like
// do: the images share the received bytes. `order` is set even where the rest is refused, if it
// could be read. The deadline becomes the earlier of the call's and of the message's timeout.
// INVALID_ARGUMENT: malformed bytes, an order that does not exist, no task or two; and what the
// task's reader says.
absl::Status ReadStreamImagesRequest(const ReceivedBytes& message, CheckModel check_model,
                                     InferenceRequest* request, std::optional<AnswerOrder>* order);

// The results as a field of a fovea.v1.StreamImagesResponse. Ends the encode stage of `response`'s
// receipt. What CheckAnswerBytes says.
absl::StatusOr<EncodedMessage> WriteStreamedResults(InferenceResponse& response, const Clock& clock,
                                                    size_t max_bytes = limits::kMaxAnswerBytes);

// An encoded fovea.v1.StreamImagesResponse to the request of that number, with those results.
EncodedMessage WriteStreamedAnswer(EncodedMessage results, uint64_t number, std::string_view id);

// The same with an error; `code` is the number of gRPC's code.
EncodedMessage WriteStreamedError(int code, std::string_view reason, std::string_view message,
                                  uint64_t number, std::string_view id);

}  // namespace fovea
