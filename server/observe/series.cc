#include "server/observe/series.h"

namespace fovea {
namespace {

// The names of gRPC's codes, which absl's equal.
constexpr std::array<std::string_view, 17> kCodes = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

}  // namespace

RequestCounters::RequestCounters(MetricFamilies& families, OwnedSeries& series) {
  for (size_t code = 0; code < kCodes.size(); ++code) {
    by_code_[code] =
        &series.Add(families.requests, {{"protocol", "grpc"}, {"code", std::string(kCodes[code])}});
  }
}

}  // namespace fovea
