// A collector that takes OTLP over gRPC.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/tracing/otlp/otlp_message.h"
#include "server/tracing/span_exporter.h"

namespace fovea {

struct OtlpOptions {
  std::string endpoint;  // HOST:PORT
  std::string issuers;   // PEM: TLS, by certificates that they signed; empty: plain text
  std::string version;   // of the server
  ResourceAttributes resource;
};

// INVALID_ARGUMENT trace.endpoint: it is not HOST:PORT.
absl::Status CheckEndpoint(std::string_view endpoint);

// Connects when the first batch is sent, and again after each loss. `options.endpoint` is one.
std::unique_ptr<SpanSink> MakeOtlpSink(OtlpOptions options);

}  // namespace fovea
