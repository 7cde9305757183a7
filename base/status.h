// Errors of model folders and of the server's data path: an absl::Status with a stable reason token
// that a program can test, for example "image.truncated". The message is for people and is an
// output channel: no library text, path or address in it. docs/faults.md holds the policy: which
// situation has which code.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fovea {

// `reason` is lower-case words joined by dots and underscores: "<stage>.<what>".
absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message);

// The reason token of an error; empty where it has none.
std::string ReasonOf(const absl::Status& status);

inline absl::Status InvalidArgument(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}
inline absl::Status ResourceExhausted(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kResourceExhausted, reason, message);
}
inline absl::Status Unavailable(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kUnavailable, reason, message);
}
inline absl::Status DeadlineExceeded(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kDeadlineExceeded, reason, message);
}
inline absl::Status Cancelled(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kCancelled, reason, message);
}
inline absl::Status Unauthenticated(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, reason, message);
}
inline absl::Status PermissionDenied(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kPermissionDenied, reason, message);
}
inline absl::Status NotFound(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kNotFound, reason, message);
}
inline absl::Status FailedPrecondition(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason, message);
}
inline absl::Status Unimplemented(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kUnimplemented, reason, message);
}
inline absl::Status Internal(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kInternal, reason, message);
}

}  // namespace fovea

// Returns the error of an expression that gives an absl::Status.
#define FOVEA_RETURN_IF_ERROR(expression)                     \
  do {                                                        \
    if (absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

#define FOVEA_CONCAT_INNER(a, b) a##b
#define FOVEA_CONCAT(a, b) FOVEA_CONCAT_INNER(a, b)

// FOVEA_ASSIGN_OR_RETURN(auto x, F()): takes the value of an absl::StatusOr, or returns its error.
#define FOVEA_ASSIGN_OR_RETURN(declaration, expression) \
  FOVEA_ASSIGN_OR_RETURN_INNER(FOVEA_CONCAT(status_or_, __LINE__), declaration, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration does not go into parentheses.
#define FOVEA_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result.ok()) return std::move(result).status();                \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)
