// Images and options as people send them: the image is the whole body, or images are parts of a
// form; options are the query's or further parts.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/request.h"
#include "server/core/request_memory.h"
#include "server/transport/http/http_exchange.h"
#include "server/transport/messages/received_bytes.h"

namespace fovea {

// The body of `request` before its Content-Encoding. INVALID_ARGUMENT request.encoding: it is one
// that is not read; Inflate's errors.
absl::StatusOr<ReceivedBytes> UnpackBody(const HttpRequest& request, int64_t max_message_bytes,
                                         RequestMemory* memory);

// Called for each option; both texts live only that long.
using TakeOption = absl::FunctionRef<absl::Status(std::string_view name, std::string_view value)>;

// The images, in order; they refer to `body` or to a copy of it that is counted in `memory`.
// RESOURCE_EXHAUSTED request.header_too_large: options of more than
// limits::kMaxRequestHeaderBytes; ReadForm's errors, RequestMemory::Take's and `take_option`'s.
absl::StatusOr<ImageFiles> ReadImageForm(const HttpRequest& request, const ReceivedBytes& body,
                                         RequestMemory* memory, TakeOption take_option);

}  // namespace fovea
