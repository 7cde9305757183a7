#include "server/transport/grpc_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/log.h"
#include "server/core/start_threads.h"
#include "server/transport/close_connections.h"
#include "server/transport/connection_listener.h"
#include "server/transport/health_service.h"
#include "server/transport/infer_exchange.h"
#include "server/transport/library_logs.h"
#include "server/transport/oip_service.h"
#include "server/transport/reflection_service.h"
#include "server/transport/vision_service.h"

namespace fovea {
namespace {

constexpr int kSecondMs = 1000;

namespace reflection = grpc::reflection;
// What reflection tells.
constexpr std::string_view kServices[] = {
    inference::GRPCInferenceService::service_full_name(), v1::VisionService::service_full_name(),
    grpc::health::v1::Health::service_full_name(),
    reflection::v1::ServerReflection::service_full_name(),
    reflection::v1alpha::ServerReflection::service_full_name()};

// What one caller may do to the others: bounds on connections, streams and headers. Limits on
// messages are set beside.
void SetConnectionLimits(const GrpcServerOptions& options, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, limits::kMaxMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits::kMaxConcurrentStreams);
  // A connection that does not get through its handshake ends.
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              limits::kHandshakeSeconds * kSecondMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                              static_cast<int>(options.max_connection_idle_ms));
  if (options.max_connection_age_ms > 0) {
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                                static_cast<int>(options.max_connection_age_ms));
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                                static_cast<int>(options.max_connection_age_grace_ms));
  }
  // Our own pings find callers that are gone without a word (so that their requests are cancelled).
  // A caller may ping every ten seconds; one that floods is cut off after two too many.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60 * kSecondMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20 * kSecondMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              10 * kSecondMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
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

}  // namespace

struct GrpcServer::State {
  State(const GrpcServerOptions& options, InferenceService& inference, ModelCatalog& catalog,
        const StatisticsSource& statistics, TransportObserver* observer, Clock& clock)
      : context{inference,
                catalog,
                statistics,
                clock,
                observer,
                options.max_message_bytes,
                MemoryBudget(options.request_bytes, clock)},
        oip(context, options.server_version),
        quiet(options.quiet_ms * kMillisecond),
        max_quiet_wait(options.max_quiet_wait_ms * kMillisecond) {}

  TransportContext context;
  OipService oip;
  VisionService vision{context};
  // The catalog tells it of models for as long as the catalog lives.
  const std::shared_ptr<HealthBoard> board = std::make_shared<HealthBoard>(
      std::set<std::string>{"", inference::GRPCInferenceService::service_full_name(),
                            v1::VisionService::service_full_name()});
  HealthService health{board, context.memory};
  ReflectionStreams reflection_streams{kServices};
  ReflectionService<reflection::v1::ServerReflection> reflection_v1{reflection_streams};
  ReflectionService<reflection::v1alpha::ServerReflection> reflection_v1alpha{reflection_streams};
  const Nanos quiet, max_quiet_wait;
  std::atomic<bool> stopped = false;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<ConnectionListener> listener;  // last: the first to go
};

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Create(
    const GrpcServerOptions& options, InferenceService& inference, ModelCatalog& catalog,
    const StatisticsSource& statistics, TransportObserver* observer, Clock& clock) {
  if (options.port < 0 || options.port > 65'535) {
    return InvalidArgument("server.port", absl::StrCat(options.port, " is no port"));
  }
  if (options.max_message_bytes < 1 || options.max_message_bytes > limits::kMaxMessageBytes) {
    return InvalidArgument("server.max_message_bytes",
                           absl::StrCat("the longest message is 1 to ", limits::kMaxMessageBytes,
                                        " bytes, not ", options.max_message_bytes));
  }
  if (options.max_buffer_bytes < options.max_message_bytes) {
    return InvalidArgument(
        "server.max_buffer_bytes",
        absl::StrCat(options.max_buffer_bytes, " bytes of buffers do not hold a message of ",
                     options.max_message_bytes));
  }
  RedirectLibraryLogs();
  std::unique_ptr<State> state;
  FOVEA_RETURN_IF_ERROR(StartThreads([&] {
    state = std::make_unique<State>(options, inference, catalog, statistics, observer, clock);
  }));
  FOVEA_ASSIGN_OR_RETURN(state->listener, ConnectionListener::Listen(options.host, options.port));
  grpc::ServerBuilder builder;
  state->connections = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  SetConnectionLimits(options, &builder);
  SetMessageLimits(options, &builder);
  builder.RegisterService(&state->oip);
  builder.RegisterService(&state->vision);
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
  catalog.OnReadinessChange(
      [board = state->board](std::string_view name, std::string_view version, bool ready) {
        board->SetModelReady(name, version, ready);
      });
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

GrpcServer::GrpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

GrpcServer::~GrpcServer() { Shutdown(0); }

int GrpcServer::port() const { return state_->listener->port(); }

void GrpcServer::SetServing(bool serving) {
  state_->context.serving = serving;
  state_->board->SetServing(serving);
}

int GrpcServer::Shutdown(Nanos timeout) {
  if (state_->stopped.exchange(true)) return 0;
  SetServing(false);
  RequestGate& gate = state_->context.gate;
  Clock& clock = state_->context.clock;
  gate.Close();
  state_->oip.DrainStreams();
  const Nanos until = clock.Now() + timeout;
  const int cut_off = gate.AwaitAnswers(clock, until);
  // A caller that does not read its answer holds up the others' end for no longer than this.
  Nanos grace_ends = std::min(until, clock.Now() + limits::kUnreadAnswerSeconds * kSecond);
  if (cut_off > 0) {
    // They are told why they end, and so that they try elsewhere.
    gate.GiveUp();
    grace_ends = clock.Now() + limits::kGiveUpSeconds * kSecond;
  }
  if (const int unread = gate.AwaitEmpty(clock, grace_ends); unread > 0) {
    Log(LogLevel::kWarning, absl::StrCat(unread, " answers were not read in time"));
  }
  state_->oip.AwaitStreams(clock, grace_ends);
  state_->oip.GiveUpListings();
  state_->board->Close();
  state_->listener->Stop();
  // Calls whose messages are still arriving would read a closed connection, and not why.
  if (timeout > 0) {
    gate.AwaitQuiet(clock, state_->quiet, clock.Now() + state_->max_quiet_wait);
  }
  CloseConnections(port());
  // gRPC takes the deadline by the wall clock. It is now: what is still under way is cancelled.
  state_->server->Shutdown(std::chrono::system_clock::now());
  state_->server->Wait();
  return cut_off;
}

}  // namespace fovea
