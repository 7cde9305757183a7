// The head of an HTTP/1.1 request: what is refused because another reader might read it another way
// (docs/faults.md, row 50).
#pragma once

#include <boost/beast/http/message.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/transport/http/http_target.h"

namespace fovea {

// INVALID_ARGUMENT http.bad_request.
absl::Status BadHttpRequest(std::string_view what);

// Of a head as it came, up to its empty line: each line ends in CRLF, none goes on with the one
// before, and there is no NUL. INVALID_ARGUMENT http.bad_request.
absl::Status CheckHeadLines(std::string_view head);

// Of a head that Beast has parsed: one host, one length at most or the encoding "chunked" (RFC
// 9112, sections 3.2 and 6.3), a path or a URL for a target, a method that is known, and limits.h.
// Gives the target; where it is a URL, its host is made the head's (RFC 9112, section 3.2.2).
// INVALID_ARGUMENT http.bad_request, http.target_too_long; RESOURCE_EXHAUSTED http.head_too_large;
// UNIMPLEMENTED http.method_unknown, http.transfer_coding_unknown.
absl::StatusOr<HttpTarget> CheckHead(boost::beast::http::request_header<>& head);

}  // namespace fovea
