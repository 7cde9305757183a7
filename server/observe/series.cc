#include "server/observe/series.h"

namespace fovea {
namespace {

// The names of gRPC's codes, which absl's equal.
constexpr std::array<std::string_view, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

}  // namespace

RequestCounters::RequestCounters(MetricFamilies& families, OwnedSeries& series) {
  for (const Protocol protocol : kProtocols) {
    for (size_t code = 0; code < kCodes; ++code) {
      counters_[static_cast<size_t>(protocol)][code] =
          &series.Add(families.requests, {{"protocol", std::string(ProtocolName(protocol))},
                                          {"code", std::string(kCodeNames[code])}});
    }
  }
}

}  // namespace fovea
