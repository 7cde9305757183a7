#include "server/lifecycle/limit_flags.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"

namespace fovea {
namespace {

constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kDayMs = 24 * kHourMs;
constexpr int64_t kMostPixels = int64_t{limits::kMaxImageSide} * limits::kMaxImageSide;

constexpr const char* kMemory = "Threads and memory";
constexpr const char* kRequests = "Limits of requests";
constexpr const char* kConnections = "Limits of connections";

using Options = ServerOptions;

constexpr LimitFlag kFlags[] = {
    {kMemory, "--imaging-memory", &Options::imaging_memory_mb, 16, 1 << 20, "MiB",
     "of --request-memory for images while they are decoded; who finds none left waits"},
    {kMemory, "--request-memory", &Options::request_memory_mb, 16, 1 << 20, "MiB",
     "that requests may make the server hold, models aside: --imaging-memory, and of the rest one "
     "half for gRPC's messages, the other for HTTP's bodies, what is made of both and answers "
     "until they have left; who finds none left is answered UNAVAILABLE"},
    {kMemory, "--experiment-memory", &Options::experiment_memory_mb, 16, 1 << 20, "MiB",
     "that models of experiments may hold, their weights as read and as they run "
     "(--enable-experiments): so much for the comparison or sweep that runs, so much for the "
     "explanation, and so much for all variants that are served, arms of live comparisons among "
     "them; more is answered RESOURCE_EXHAUSTED"},
    {kMemory, "--experiment-weight", &Options::experiment_weight, 1, 1000, "",
     "against models that serve: where these always have work, experiments get one in so many "
     "parts "
     "of the device's time (--enable-experiments)"},
    {kMemory, "--http-thread-count", &Options::http_threads, 1, 1024, "",
     "threads that frame HTTP's requests and answer what is quick; turn it up where thousands of "
     "small requests come each second"},
    {kRequests, "--max-message", &Options::max_message_mb, 1,
     limits::kMaxMessageBytes / limits::kMiB, "MiB",
     "of one request; more is answered RESOURCE_EXHAUSTED"},
    {kRequests, "--max-image", &Options::max_image_mb, 1, limits::kMaxMessageBytes / limits::kMiB,
     "MiB", "of one picture's file; more is answered RESOURCE_EXHAUSTED"},
    {kRequests, "--max-image-pixels", &Options::max_image_pixels, 1, kMostPixels, "pixels",
     "of one picture, by its header; more is answered INVALID_ARGUMENT before anything is "
     "decoded. Decoding takes 3 to 20 bytes of --imaging-memory for each"},
    {kRequests, "--imaging-queue-size", &Options::imaging_queue_size, 1, 1'000'000, "",
     "images that may wait to be decoded, of all models; turn it down to refuse sooner under "
     "overload (how many requests wait for a model is its own max_queue_size)"},
    {kRequests, "--grpc-max-stream-requests", &Options::grpc_max_stream_requests, 1, 4096, "",
     "requests of one stream that are under way; turn it up where one stream alone is to fill "
     "large batches"},
    {kRequests, "--max-shared-memory-regions", &Options::max_shared_memory_regions, 1, 65'536, "",
     "regions of shared memory that callers may have registered (--allow-client-shm); each keeps "
     "a file descriptor open"},
    {kConnections, "--handshake-timeout", &Options::handshake_timeout_ms, 100, 600'000,
     "milliseconds", "in which a connection is set up, over gRPC and with TLS over HTTP"},
    {kConnections, "--grpc-keepalive-time", &Options::grpc_keepalive_time_ms, 0, kDayMs,
     "milliseconds",
     "between two pings that the server sends on a connection, to find callers that are gone "
     "without a word",
     "never"},
    {kConnections, "--grpc-keepalive-timeout", &Options::grpc_keepalive_timeout_ms, 100, kHourMs,
     "milliseconds", "in which a caller answers such a ping, or its connection ends"},
    {kConnections, "--grpc-http2-min-recv-ping-interval-without-data",
     &Options::grpc_min_ping_interval_ms, 0, kDayMs, "milliseconds",
     "between two pings of a caller without data between them; sooner is a strike"},
    {kConnections, "--grpc-http2-max-ping-strikes", &Options::grpc_max_ping_strikes, 0, 1000, "",
     "strikes that are let pass before the caller is sent GOAWAY and its connection is closed",
     "any number"},
    {kConnections, "--grpc-max-connection-idle", &Options::grpc_max_connection_idle_ms, 0, kDayMs,
     "milliseconds", "of a connection without a call; then it is asked to end (GOAWAY)", "never"},
    {kConnections, "--grpc-max-connection-age", &Options::grpc_max_connection_age_ms, 0, kDayMs,
     "milliseconds",
     "of a connection's life, within a tenth; then it is asked to end (GOAWAY), its calls go on. "
     "Set it behind a load balancer that spreads connections, not calls",
     "never"},
    {kConnections, "--grpc-max-connection-age-grace", &Options::grpc_max_connection_age_grace_ms, 0,
     kDayMs, "milliseconds", "that the calls of such a connection have to end"},
    {kConnections, "--grpc-max-concurrent-streams", &Options::grpc_max_concurrent_streams, 1,
     1'000'000, "", "calls of one connection that are under way; more wait at the caller"},
    {kConnections, "--http-max-connections", &Options::http_max_connections, 1, 1'000'000, "",
     "connections that HTTP's port has open at a time; half of the process's file descriptors "
     "bound them too"},
    {kConnections, "--http-max-connection-idle", &Options::http_max_connection_idle_ms, 0, kDayMs,
     "milliseconds", "that a connection without a request is kept alive", "for ever"},
    {kConnections, "--http-head-timeout", &Options::http_head_timeout_ms, 100, 600'000,
     "milliseconds",
     "that a request's line and fields may take from their first byte on; turn it up for callers "
     "on slow lines"},
    {kConnections, "--http-transfer-timeout", &Options::http_transfer_timeout_ms, 100, 600'000,
     "milliseconds",
     "in which a body or an answer brings so many seconds' share of 128 KiB a second, or its end; "
     "turn it up for callers that pause"},
};

}  // namespace

std::span<const LimitFlag> LimitFlags() { return kFlags; }

std::string HelpOf(const LimitFlag& limit) {
  std::string text = *limit.unit == '\0' ? "" : absl::StrCat(limit.unit, " ");
  // "pixels of one picture", "MiB of one request"; what counts things begins with their name.
  absl::StrAppend(&text, limit.text);
  text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  if (*limit.never != '\0') absl::StrAppend(&text, "; 0: ", limit.never);
  return text;
}

}  // namespace fovea
