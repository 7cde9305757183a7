#include "server/transport/grpc/grpc_server.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/log.h"
#include "server/core/mutex.h"
#include "server/core/start_threads.h"
#include "server/transport/connections/connection_listener.h"
#include "server/transport/grpc/close_connections.h"
#include "server/transport/grpc/comparison_service.h"
#include "server/transport/grpc/experiment_service.h"
#include "server/transport/grpc/health_service.h"
#include "server/transport/grpc/infer_exchange.h"
#include "server/transport/grpc/infer_stream.h"
#include "server/transport/grpc/library_logs.h"
#include "server/transport/grpc/oip_service.h"
#include "server/transport/grpc/reflection_service.h"
#include "server/transport/grpc/server_credentials.h"
#include "server/transport/grpc/vision_service.h"

namespace fovea {
namespace {

namespace reflection = grpc::reflection;
// What reflection tells.
constexpr std::string_view kServices[] = {
    inference::GRPCInferenceService::service_full_name(),
    v1::VisionService::service_full_name(),
    v1::ComparisonService::service_full_name(),
    v1::ExperimentService::service_full_name(),
    grpc::health::v1::Health::service_full_name(),
    reflection::v1::ServerReflection::service_full_name(),
    reflection::v1alpha::ServerReflection::service_full_name()};

// What health tells of beside the server and its models.
constexpr std::string_view kHealthServices[] = {
    inference::GRPCInferenceService::service_full_name(), v1::VisionService::service_full_name(),
    v1::ComparisonService::service_full_name(), v1::ExperimentService::service_full_name()};

// Bytes that gRPC reads from a connection at a time. Headers of calls take 15 bytes each or less,
// and 12 KiB of memory once they are read.
constexpr int64_t kReadBytes = 64 * limits::kKiB;

// What one caller may do to the others: bounds on connections, streams and headers. Limits on
// messages are set beside.
void SetConnectionLimits(const GrpcServerOptions& options, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, limits::kMaxMetadataBytes);
  const auto set = [&](const char* argument, int64_t value) {
    constexpr int64_t kMost = std::numeric_limits<int>::max();
    builder->AddChannelArgument(argument, static_cast<int>(std::min(value, kMost)));
  };
  // gRPC's "never" is the largest number.
  const auto set_or_never = [&](const char* argument, int64_t ms) {
    set(argument, ms == 0 ? std::numeric_limits<int>::max() : ms);
  };
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  set(GRPC_ARG_ENABLE_CHANNELZ, 1);  // CloseCrowdedConnections asks it
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  // A connection that does not get through its handshake ends.
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, options.handshake_ms);
  set_or_never(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.max_connection_idle_ms);
  set_or_never(GRPC_ARG_MAX_CONNECTION_AGE_MS, options.max_connection_age_ms);
  set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, options.max_connection_age_grace_ms);
  // Our own pings find callers that are gone without a word (so that their requests are cancelled).
  set_or_never(GRPC_ARG_KEEPALIVE_TIME_MS, options.keepalive_time_ms);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.keepalive_timeout_ms);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, options.min_ping_interval_ms);
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, options.max_ping_strikes);
}

void SetMessageLimits(const GrpcServerOptions& options, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder->SetMaxSendMessageSize(-1);
  // A tensor of pixels comes in one frame, and its sender waits for no window updates. (What a
  // stream may have sent ahead is still bounded by the quota.)
  builder->AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, limits::kStreamWindowBytes);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, limits::kStreamWindowBytes);
  // We unpack for ourselves, with a bound (grpc_message.h).
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  grpc::ResourceQuota quota("fovea");
  quota.Resize(options.max_buffer_bytes);
  builder->SetResourceQuota(quota);
}

// Returns memory of calls that have ended to the system, after a few seconds.
void TrimLater() {
  constexpr int64_t kSeconds = 5;
  static std::atomic<bool> pending = false;
  if (pending.exchange(true)) return;
  auto alarm = std::make_shared<grpc::Alarm>();
  grpc::Alarm& timer = *alarm;
  timer.Set(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(kSeconds, GPR_TIMESPAN)),
      [alarm = std::move(alarm)](bool /*in_time*/) mutable {
        pending = false;
        malloc_trim(0);
        alarm.reset();
      });
}

// Ends connections that open calls beyond the limit of streams, because their callers do not
// acknowledge it. On gRPC's threads.
class StreamLimit {
 public:
  explicit StreamLimit(int64_t max_streams) : max_streams_(max_streams) {}

  // Calls that a connection begins between two checks.
  int64_t calls_between() const { return std::max(max_streams_, kLeastCallsBetween); }

  void Enforce(int port) {
    const int64_t begun = scans_;
    MutexLock lock(mutex_);
    if (scans_ != begun) return;  // another thread has looked at all connections since
    ++scans_;
    (void)OrOutOfMemory([&] {
      // gRPC counts calls that have ended as open until their reactors are done.
      if (CloseCrowdedConnections(port, 2 * max_streams_) == 0) return absl::OkStatus();
      TrimLater();
      // A caller must not be able to fill the log.
      if (std::has_single_bit(++closed_)) {
        Log(LogLevel::kWarning,
            "closing gRPC connections that opened more calls than "
            "--grpc-max-concurrent-streams without acknowledging that limit");
      }
      return absl::OkStatus();
    });
  }

 private:
  static constexpr int64_t kLeastCallsBetween = 1024;

  const int64_t max_streams_;
  std::atomic<int64_t> scans_ = 0;               // that have begun
  Mutex mutex_;                                  // held by the one that looks
  uint32_t closed_ ABSL_GUARDED_BY(mutex_) = 0;  // times that connections were closed
};

}  // namespace

struct GrpcServer::State {
  State(const GrpcServerOptions& options, ServerApi& api)
      : context{api, options.max_message_bytes, options.max_answer_bytes, options.groups,
                static_cast<size_t>(options.max_stream_requests)},
        stream_limit(options.max_concurrent_streams) {}

  GrpcContext context;
  InferStreams streams;
  OipService oip{context, streams};
  VisionService vision{context, streams};
  ComparisonService comparison{context};
  ExperimentService experiment{context};
  HealthService health{context};
  ReflectionStreams reflection_streams{context, kServices};
  ReflectionService<reflection::v1::ServerReflection> reflection_v1{reflection_streams};
  ReflectionService<reflection::v1alpha::ServerReflection> reflection_v1alpha{reflection_streams};
  std::atomic<bool> closed = false;
  StreamLimit stream_limit;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<ConnectionListener> listener;  // last: the first to go
};

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Create(const GrpcServerOptions& options,
                                                               ServerApi& api) {
  if (options.port < 0 || options.port > 65'535) {
    return InvalidArgument("server.port", absl::StrCat(options.port, " is no port"));
  }
  if (options.max_message_bytes < 1 || options.max_message_bytes > limits::kMaxMessageBytes) {
    return InvalidArgument("server.max_message_bytes",
                           absl::StrCat("the longest message is 1 to ", limits::kMaxMessageBytes,
                                        " bytes, not ", options.max_message_bytes));
  }
  if (options.max_answer_bytes < 1 || options.max_answer_bytes > limits::kMaxAnswerBytes) {
    return InvalidArgument("server.max_answer_bytes",
                           absl::StrCat("the longest answer is 1 to ", limits::kMaxAnswerBytes,
                                        " bytes, not ", options.max_answer_bytes));
  }
  if (options.max_buffer_bytes < options.max_message_bytes) {
    return InvalidArgument(
        "server.max_buffer_bytes",
        absl::StrCat(options.max_buffer_bytes, " bytes of buffers do not hold a message of ",
                     options.max_message_bytes));
  }
  RedirectLibraryLogs();
  auto state = std::make_unique<State>(options, api);
  FOVEA_ASSIGN_OR_RETURN(state->listener,
                         ConnectionListener::Listen(options.host, options.port, "--grpc-port"));
  // Before anybody can ask.
  for (const std::string_view service : kHealthServices) api.health().AddService(service);
  state->credentials = MakeServerCredentials(
      options.tls, state->stream_limit.calls_between(),
      [&limit = state->stream_limit, port = state->listener->port()] { limit.Enforce(port); });
  grpc::ServerBuilder builder;
  state->connections = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, state->credentials);
  SetConnectionLimits(options, &builder);
  SetMessageLimits(options, &builder);
  builder.RegisterService(&state->oip);
  builder.RegisterService(&state->vision);
  builder.RegisterService(&state->comparison);
  builder.RegisterService(&state->experiment);
  builder.RegisterService(&state->health);
  builder.RegisterService(&state->reflection_v1);
  builder.RegisterService(&state->reflection_v1alpha);
  state->server = builder.BuildAndStart();
  if (state->server == nullptr) return Internal("server.start", "gRPC cannot be started");
  FOVEA_RETURN_IF_ERROR(
      state->listener->Start([&connections = *state->connections](int connection) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
        parameters.fd = connection;
        connections.HandleNewConnection(&parameters);
      }));
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

GrpcServer::GrpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

GrpcServer::~GrpcServer() { Close(); }

int GrpcServer::port() const { return state_->listener->port(); }

void GrpcServer::DrainStreams() { state_->streams.Drain(); }

void GrpcServer::AwaitStreams(Nanos until) {
  state_->streams.AwaitEmpty(state_->context.api.clock(), until);
}

void GrpcServer::StopListening() { state_->listener->Stop(); }

void GrpcServer::Close() {
  if (state_->closed.exchange(true)) return;
  StopListening();
  CloseConnections(port());
  // gRPC takes the deadline by the wall clock. It is now: what is still under way is cancelled.
  state_->server->Shutdown(std::chrono::system_clock::now());
  state_->server->Wait();
}

}  // namespace fovea
