// The server's command line and its config file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/limits.h"

namespace CLI {
class App;
}

namespace fovea {

struct ServerOptions {
  std::vector<std::string> model_repositories;
  std::string host = "127.0.0.1";
  int http_port = 8000;                         // 0: any free one; -1: no HTTP
  std::vector<std::string> http_allow_origins;  // of pages that may ask; "*": any
  std::vector<std::string> http_hosts;          // by which HTTP may be asked; "*": any
  std::string playground = "on";                // on | off: pages at HTTP's "/"
  int grpc_port = 8001;                         // 0: any free one
  int metrics_port = 8002;                      // 0: any free one; -1: no metrics
  std::string tls_cert, tls_key;                // PEM files; empty: no TLS
  std::string tls_client_ca;                    // PEM file; empty: callers need no certificate
  std::string api_keys_file;                    // empty: nobody needs a key
  std::vector<std::string> grpc_api, http_api;  // groups that the port answers; empty: all
  bool metrics_plaintext = false;               // with TLS: not on the metrics' port
  bool triton_metrics = false;                  // Triton's names besides our own
  std::string model_control_mode = "none";      // none | explicit | poll
  std::vector<std::string> load_models;         // with "explicit"
  bool exit_on_load_error = false;              // of a model that is loaded at the start
  // "true": not ready until each of the start's models has loaded; "false": once each was tried.
  std::string strict_readiness = "true";
  int repository_poll_secs = 15;   // with "poll"
  int repository_settle_secs = 5;  // with "poll"
  int canary_interval_secs = 60;   // 0: canaries are asked before a version serves only
  // After SIGTERM: how long the server goes on accepting while it already reads NOT_SERVING, and
  // then how long accepted requests may take to finish.
  int drain_delay_ms = 0;
  int drain_timeout_ms = 30'000;
  int threads = 0;          // for models; 0: the processors that the process may use
  int imaging_threads = 0;  // for decoding and resizing; 0: the processors it may use
  // The limits of LimitFlags(), which says what each is.
  int64_t request_memory_mb = 2048;
  int64_t imaging_memory_mb = 512;
  int64_t imaging_queue_size = limits::kMaxImagingQueue;
  int64_t max_message_mb = limits::kMaxMessageBytes / limits::kMiB;
  int64_t max_image_mb = limits::kMaxEncodedImageBytes / limits::kMiB;
  int64_t max_image_pixels = limits::kMaxImagePixels;
  int64_t max_shared_memory_regions = limits::kMaxSharedMemoryRegions;
  int64_t handshake_timeout_ms = int64_t{limits::kHandshakeSeconds} * 1000;
  int64_t grpc_keepalive_time_ms = limits::kGrpcKeepaliveTimeMs;
  int64_t grpc_keepalive_timeout_ms = limits::kGrpcKeepaliveTimeoutMs;
  int64_t grpc_min_ping_interval_ms = limits::kGrpcMinPingIntervalMs;
  int64_t grpc_max_ping_strikes = limits::kGrpcMaxPingStrikes;
  int64_t grpc_max_connection_idle_ms = limits::kGrpcMaxConnectionIdleMs;
  int64_t grpc_max_connection_age_ms = 0;
  int64_t grpc_max_connection_age_grace_ms = limits::kGrpcMaxConnectionAgeGraceMs;
  int64_t grpc_max_concurrent_streams = limits::kMaxConcurrentStreams;
  int64_t grpc_max_stream_requests = limits::kMaxStreamRequestsInFlight;
  int64_t http_threads = limits::kHttpThreads;
  int64_t http_max_connections = limits::kMaxHttpConnections;
  int64_t http_max_connection_idle_ms = limits::kHttpIdleSeconds * 1000;
  int64_t http_head_timeout_ms = limits::kHttpHeadSeconds * 1000;
  int64_t http_transfer_timeout_ms = limits::kHttpTransferSeconds * 1000;
  int gpu_batches = limits::kBatchesPerGpu;  // at a time on each GPU, of all models together
  uint64_t max_gpu_bytes = 0;     // of each GPU, for all models together; 0: what is free there
  uint64_t max_device_bytes = 0;  // of a model's weights and a batch of it, on its device; 0: any
  bool allow_client_shm = false;  // tensors in shared memory that callers register
  // Comparisons, sweeps, explanations, served variants, and live comparisons, which decide where a
  // model's traffic goes.
  bool enable_experiments = false;
  int64_t experiment_weight = limits::kExperimentWeight;
  int64_t experiment_memory_mb = limits::kExperimentMemoryMb;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string access_log = "errors";       // off | errors | all
  int64_t access_log_sample = 1;           // with "all": one in so many of the answered requests
  std::string otlp_endpoint;               // HOST:PORT of a collector of spans; empty: no tracing
  std::string otlp_ca;                     // PEM file of its issuers; empty: without TLS
  std::string otlp_service_name;           // empty: by otlp_resource, or "fovea"
  std::vector<std::string> otlp_resource;  // NAME=VALUE of the spans' resource
  double trace_sampling = 1;               // of requests that nobody traces yet, the share
  int64_t trace_forced_per_second = 100;   // requests whose callers ask for it
};

// How request_memory_mb is shared out: gRPC counts its buffers by itself, and who decodes waits for
// his turn while others are refused, so that each has a part of its own. MiB.
struct RequestMemoryParts {
  int64_t messages = 0;  // gRPC's buffers: what has been received, whole or not
  int64_t images = 0;    // being decoded
  // HTTP's bodies, what is made of messages, and answers until they have left.
  int64_t requests = 0;
};
RequestMemoryParts ShareOut(const ServerOptions& options);

// What the command line asks for: to serve with `options`, to do one other thing, or to end at once
// with `exit_code` (0 after --help and --version, 2 after a mistake, which has been told on
// standard error).
struct ParsedCommandLine {
  bool serve = false;
  bool check = false;     // --check-config: look for faults, and serve nothing
  bool pre_stop = false;  // --pre-stop: tell the server that runs here, and serve nothing
  int exit_code = 0;
  ServerOptions options;
  std::string effective;  // `options` as a file for --config, every one of them
  // A sentence of each variable of the environment that begins with FOVEA_ and does not belong to
  // any flag.
  std::vector<std::string> unknown_variables;
};

// Every flag has an environment variable too: FOVEA_ and its name in upper case with underscores;
// and a key in the file of --config. The flag goes before the variable, the variable before the
// file, and the file before the default. A variable that is set and empty is a mistake. A mistake
// in a variable is told with its name, one in the file with the file and the line.
ParsedCommandLine ParseCommandLine(int argc, const char* const* argv);

// Calls `visit` with the description of every flag, for what is written from it.
void VisitCommandLine(const std::function<void(const CLI::App&)>& visit);

}  // namespace fovea
