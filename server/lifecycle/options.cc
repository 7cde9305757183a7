#include "server/lifecycle/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <limits>

#include "base/limits.h"
#include "server/core/version.h"

namespace fovea {
namespace {

// "--grpc-port" -> "FOVEA_GRPC_PORT".
std::string EnvironmentVariable(std::string flag) {
  flag = "FOVEA_" + flag.substr(flag.find_first_not_of('-'));
  std::transform(flag.begin(), flag.end(), flag.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : std::toupper(c); });
  return flag;
}

}  // namespace

RequestMemoryParts ShareOut(const ServerOptions& options) {
  const int64_t others = options.request_memory_mb - options.imaging_memory_mb;
  return {
      .messages = others / 2, .images = options.imaging_memory_mb, .requests = others - others / 2};
}

ParsedCommandLine ParseCommandLine(int argc, const char* const* argv) {
  ParsedCommandLine parsed;
  ServerOptions& options = parsed.options;
  CLI::App app(
      "fovea-server: serves vision transformers over gRPC and HTTP and tells what their attention "
      "costs.\n"
      "Every flag can also be given as an environment variable, shown beside it.",
      "fovea-server");
  app.set_version_flag("--version", std::string("fovea-server ") + kVersion);
  app.option_defaults()->always_capture_default();
  app.get_formatter()->column_width(42);

  auto add = [&](const std::string& flag, auto& value, const std::string& text) {
    return app.add_option(flag, value, text)->envname(EnvironmentVariable(flag));
  };
  add("--model-repository", options.model_repositories,
      "A folder of models (<name>/model.textproto, <name>/labels.txt, "
      "<name>/<version>/model.safetensors); give the "
      "flag again for more folders")
      ->required();
  add("--host", options.host, "Address to listen on; 0.0.0.0 for every interface");
  add("--http-port", options.http_port,
      "Port of HTTP: the Open Inference Protocol's REST, and /v1/classify, /v1/detect and "
      "/v1/segment; 0 takes a free one, -1 serves none")
      ->check(CLI::Range(-1, 65535));
  add("--grpc-port", options.grpc_port, "Port of gRPC; 0 takes a free one, which is printed")
      ->check(CLI::Range(0, 65535));
  add("--metrics-port", options.metrics_port,
      "Port of Prometheus metrics over HTTP, at /metrics; 0 takes a free one, -1 serves none")
      ->check(CLI::Range(-1, 65535));
  add("--model-control-mode", options.model_control_mode,
      "none: every model is loaded at the start, and what has changed at SIGHUP; explicit: "
      "--load-model's, and by request; poll: the folders are watched for changes")
      ->check(CLI::IsMember({"none", "explicit", "poll"}));
  add("--load-model", options.load_models,
      "With explicit control: a model to load at the start; give the flag again for more");
  app.add_flag(
         "--exit-on-load-error", options.exit_on_load_error,
         "Exit with 1 when a model that is loaded at the start cannot be; without it the server "
         "answers for the others, and health reads NOT_SERVING until each has loaded")
      ->envname(EnvironmentVariable("--exit-on-load-error"));
  add("--repository-poll-secs", options.repository_poll_secs,
      "With poll: seconds between two looks")
      ->check(CLI::Range(1, 86'400));
  add("--repository-settle-secs", options.repository_settle_secs,
      "With poll: seconds in which nothing of a model's folder has to change before it is loaded; "
      "turn it up where copies into the repository pause for longer")
      ->check(CLI::Range(0, 86'400));
  add("--canary-interval", options.canary_interval_secs,
      "Seconds between two rounds in which each version that has a canary is asked for it, and "
      "leaves service while it answers wrongly; 0: only before it serves")
      ->check(CLI::Range(0, 86'400));
  add("--drain-delay", options.drain_delay_ms,
      "After SIGTERM: milliseconds in which requests are still accepted while health already reads "
      "NOT_SERVING; turn "
      "it up to the time your load balancer takes to notice")
      ->check(CLI::Range(0, 600'000));
  add("--drain-timeout", options.drain_timeout_ms,
      "After SIGTERM: milliseconds that accepted requests have to finish; what is left then is "
      "given up and the server exits with 1")
      ->check(CLI::Range(0, 3'600'000));
  add("--threads", options.threads,
      "Processors for running models; 0: those of the affinity mask and the cgroup's quota. A "
      "model's instances share them")
      ->check(CLI::Range(0, 1024));
  add("--imaging-threads", options.imaging_threads,
      "Threads that decode and resize images, at lower priority; 0: as many as processors")
      ->check(CLI::Range(0, 1024));
  add("--imaging-memory", options.imaging_memory_mb,
      "MiB of --request-memory for images while they are decoded; who finds none left waits")
      ->check(CLI::Range(16, 1 << 20));
  add("--request-memory", options.request_memory_mb,
      "MiB that requests may make the server hold, models aside: --imaging-memory, and of the rest "
      "one half for gRPC's messages, the other for HTTP's bodies, what is made of both and answers "
      "until they have left; who finds none left is answered UNAVAILABLE")
      ->check(CLI::Range(16, 1 << 20));
  add("--max-message", options.max_message_mb,
      "MiB of one request; more is answered RESOURCE_EXHAUSTED")
      ->check(CLI::Range(int64_t{1}, limits::kMaxMessageBytes / limits::kMiB));
  add("--max-device-bytes", options.max_device_bytes,
      "What a model's weights and one batch of it may hold on its device (bytes, or 512MiB, 4GiB). "
      "Batches of each of its sizes are measured before it is ready; images of a size that holds "
      "more are answered RESOURCE_EXHAUSTED. 0: as much as there is")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      // "-1" comes here as the largest number.
      ->check(CLI::Range(uint64_t{0}, uint64_t{std::numeric_limits<int64_t>::max()}));
  add("--log-level", options.log_level, "The least severe messages that are written")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  add("--log-format", options.log_format, "text for people, json for machines")
      ->check(CLI::IsMember({"text", "json"}));
  add("--access-log", options.access_log,
      "A line for each inference request: none (off), for those that failed (errors, at most 100 a "
      "second), or for all")
      ->check(CLI::IsMember({"off", "errors", "all"}));
  add("--access-log-sample", options.access_log_sample,
      "With --access-log all: log one in so many of the requests that were answered")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    parsed.exit_code = code == 0 ? 0 : 2;
    return parsed;
  }
  if (!options.load_models.empty() && options.model_control_mode != "explicit") {
    std::cerr << "--load-model needs --model-control-mode explicit\n";
    parsed.exit_code = 2;
    return parsed;
  }
  const RequestMemoryParts memory = ShareOut(options);
  if (memory.messages < options.max_message_mb) {
    std::cerr << "--request-memory " << options.request_memory_mb << " leaves "
              << std::max<int64_t>(memory.messages, 0)
              << " MiB for messages beside --imaging-memory " << options.imaging_memory_mb
              << ", and --max-message is " << options.max_message_mb
              << ": raise the first or lower the others\n";
    parsed.exit_code = 2;
    return parsed;
  }
  parsed.serve = true;
  return parsed;
}

}  // namespace fovea
