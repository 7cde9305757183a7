#include "server/tracing/otlp/otlp_sink.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/google/rpc/error_details.pb.h"
#include "proto/google/rpc/status.pb.h"
#include "proto/opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/core/mutex.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

namespace collector = opentelemetry::proto::collector::trace::v1;

// When the collector says that it may be asked again.
std::optional<Nanos> RetryDelay(const grpc::Status& status) {
  google::rpc::Status told;
  if (!told.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& detail : told.details()) {
    google::rpc::RetryInfo info;
    if (!absl::EndsWith(detail.type_url(), "/google.rpc.RetryInfo") ||
        !info.ParseFromString(detail.value())) {
      continue;
    }
    constexpr int64_t kLongestSeconds = 3600;
    const int64_t seconds = std::clamp<int64_t>(info.retry_delay().seconds(), 0, kLongestSeconds);
    const int64_t rest = std::clamp<int64_t>(info.retry_delay().nanos(), 0, kSecond - 1);
    return seconds * kSecond + rest;
  }
  return std::nullopt;
}

// As OTLP's specification has it ("OTLP/gRPC Response", "Failures").
ExportResult ToResult(const grpc::Status& status) {
  ExportResult result{.outcome = ExportResult::Outcome::kRefused,
                      .why = absl::StrCat(status.error_message(), " (gRPC's code ",
                                          static_cast<int>(status.error_code()), ")")};
  const std::optional<Nanos> delay = RetryDelay(status);
  switch (status.error_code()) {
    case grpc::StatusCode::RESOURCE_EXHAUSTED:  // only where it says when
      if (!delay) break;
      [[fallthrough]];
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      result.outcome = ExportResult::Outcome::kTryAgain;
      result.retry_after = delay.value_or(0);
      break;
    default:
      break;
  }
  return result;
}

class OtlpSink final : public SpanSink {
 public:
  explicit OtlpSink(OtlpOptions options) : options_(std::move(options)) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);     // they are the exporter's
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // to the collector, and to nobody else
    // A collector whose machine is gone says nothing: a ping without an answer ends the connection.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 500);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 500);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5'000);
    arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);  // no further look-up in DNS
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = collector::TraceService::NewStub(
        grpc::CreateCustomChannel(options_.endpoint, Credentials(), arguments));
  }

  ExportResult Export(std::span<const Span> spans, Nanos timeout) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(timeout));
    {
      MutexLock lock(mutex_);
      if (cancelled_) return {.outcome = ExportResult::Outcome::kRefused, .why = "the server ends"};
      under_way_ = &context;
    }
    collector::ExportTraceServiceResponse response;
    const grpc::Status status =
        stub_->Export(&context, ToOtlp(options_.resource, options_.version, spans), &response);
    {
      MutexLock lock(mutex_);
      under_way_ = nullptr;
    }
    if (!status.ok()) return ToResult(status);
    return {.rejected = response.partial_success().rejected_spans()};
  }

  void Cancel() override {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (under_way_ != nullptr) under_way_->TryCancel();
  }

 private:
  std::shared_ptr<grpc::ChannelCredentials> Credentials() const {
    if (options_.issuers.empty()) return grpc::InsecureChannelCredentials();
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = options_.issuers;
    return grpc::SslCredentials(tls);
  }

  const OtlpOptions options_;
  std::unique_ptr<collector::TraceService::Stub> stub_;
  Mutex mutex_;
  grpc::ClientContext* under_way_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

absl::Status CheckEndpoint(std::string_view endpoint) {
  const size_t colon = endpoint.rfind(':');
  const std::string_view host = endpoint.substr(0, std::min(colon, endpoint.size()));
  const std::string_view port = colon == std::string_view::npos ? "" : endpoint.substr(colon + 1);
  int number = 0;
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (host.empty() || host.find_first_of("/@ ") != std::string_view::npos ||
      (!in_brackets && host.find(':') != std::string_view::npos) ||
      !absl::SimpleAtoi(absl::string_view(port.data(), port.size()), &number) || number < 1 ||
      number > 65535) {
    return InvalidArgument("trace.endpoint",
                           absl::StrCat("--otlp-endpoint is HOST:PORT, not ", InQuotes(endpoint)));
  }
  return absl::OkStatus();
}

std::unique_ptr<SpanSink> MakeOtlpSink(OtlpOptions options) {
  return std::make_unique<OtlpSink>(std::move(options));
}

}  // namespace fovea
