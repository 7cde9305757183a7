#include "server/transport/http/http_status.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/status.h"

namespace fovea {
namespace {

using boost::beast::http::status;

// Where a reason says more than its code: RFC 9110, section 15, and RFC 6585.
constexpr auto kByReason = std::to_array<std::pair<std::string_view, status>>({
    {"experiment.too_many", status::too_many_requests},
    {"image.unsupported_type", status::unsupported_media_type},
    {"http.body_timeout", status::request_timeout},
    {"http.expectation_unknown", status::expectation_failed},
    {"http.head_timeout", status::request_timeout},
    {"http.head_too_large", status::request_header_fields_too_large},
    {"http.method_not_allowed", status::method_not_allowed},
    {"http.method_unknown", status::not_implemented},
    {"http.other_host", status::misdirected_request},
    {"http.path_unknown", status::not_found},
    {"http.target_too_long", status::uri_too_long},
    {"quota.concurrency", status::too_many_requests},
    {"quota.rate", status::too_many_requests},
    {"request.encoding", status::unsupported_media_type},
    {"shared_memory.no_files", status::too_many_requests},
    {"shared_memory.too_many", status::too_many_requests},
});

}  // namespace

status HttpStatusOf(const absl::Status& error) {
  const auto by_reason =
      std::ranges::find(kByReason, ReasonOf(error), &std::pair<std::string_view, status>::first);
  if (by_reason != kByReason.end()) return by_reason->second;
  switch (error.code()) {
    case absl::StatusCode::kOk:
      return status::ok;
    case absl::StatusCode::kAlreadyExists:  // as Triton
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return status::bad_request;
    case absl::StatusCode::kUnauthenticated:
      return status::unauthorized;
    case absl::StatusCode::kPermissionDenied:
      return status::forbidden;
    case absl::StatusCode::kNotFound:
      return status::not_found;
    case absl::StatusCode::kResourceExhausted:
      return status::payload_too_large;
    case absl::StatusCode::kUnimplemented:
      return status::not_implemented;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:  // its caller has gone, and reads nothing
      return status::service_unavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return status::gateway_timeout;
    default:
      return status::internal_server_error;
  }
}

HttpAnswer ErrorAnswer(const absl::Status& error, std::string_view id) {
  HttpAnswer answer{.status = HttpStatusOf(error),
                    .fields = {{"Content-Type", "application/json"}}};
  if (answer.status == status::service_unavailable || answer.status == status::too_many_requests) {
    answer.fields.emplace_back("Retry-After", "1");
  }
  if (answer.status == status::unauthorized) {
    answer.fields.emplace_back("WWW-Authenticate", "Bearer");  // RFC 9110, section 15.5.2
  }
  nlohmann::ordered_json body = {{"error", std::string(error.message())},
                                 {"code", absl::StatusCodeToString(error.code())},
                                 {"reason", ReasonOf(error)}};
  if (!id.empty()) body["id"] = std::string(id);
  answer.body.push_back(body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return answer;
}

}  // namespace fovea
