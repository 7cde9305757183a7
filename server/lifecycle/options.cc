#include "server/lifecycle/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/command_line.h"
#include "base/did_you_mean.h"
#include "base/limits.h"
#include "server/api/api_methods.h"
#include "server/core/version.h"
#include "server/lifecycle/config_file.h"
#include "server/lifecycle/limit_flags.h"

namespace fovea {
namespace {

// "--grpc-port" -> "FOVEA_GRPC_PORT".
std::string EnvironmentVariable(std::string flag) {
  flag = "FOVEA_" + flag.substr(flag.find_first_not_of('-'));
  std::transform(flag.begin(), flag.end(), flag.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : std::toupper(c); });
  return flag;
}

// The bounds of a limit, in words where a value is not within them.
CLI::Validator Within(const LimitFlag& limit) {
  return CLI::Validator(
      [&limit](const std::string& text) -> std::string {
        int64_t value = 0;
        if (absl::SimpleAtoi(text, &value) && value >= limit.least && value <= limit.most) {
          return "";
        }
        return absl::StrCat(text, " is not a whole number from ", limit.least, " to ", limit.most,
                            *limit.unit == '\0' ? "" : " ", limit.unit);
      },
      absl::StrCat("INT in [", limit.least, " - ", limit.most, "]"));
}

// A name of a file that is empty would say that there is none.
const CLI::Validator kNotEmpty(
    [](const std::string& text) -> std::string {
      return text.empty() ? "is empty; leave the flag out where there is no such file" : "";
    },
    "");

// CLI11 finds NaN within every range.
const CLI::Validator kNumber(
    [](const std::string& text) -> std::string {
      double value = 0;
      return absl::SimpleAtod(text, &value) && std::isnan(value) ? text + " is no number" : "";
    },
    "");

void AddTraceFlags(CLI::App& app, ServerOptions& options) {
  app.option_defaults()->group("Traces");
  auto* const endpoint =
      app.add_option(
             "--otlp-endpoint", options.otlp_endpoint,
             "Send spans of requests to this collector, by OTLP over gRPC; without it nothing "
             "is traced and no connection is opened")
          ->check(kNotEmpty)
          ->type_name("HOST:PORT")
          ->envname(EnvironmentVariable("--otlp-endpoint"));
  app.add_option("--otlp-ca", options.otlp_ca,
                 "TLS to the collector: a PEM file with its issuers; without it there is none")
      ->check(kNotEmpty)
      ->envname(EnvironmentVariable("--otlp-ca"))
      ->needs(endpoint);
  app.add_option("--otlp-service-name", options.otlp_service_name,
                 "What traces call this service; without it `fovea`")
      ->envname("OTEL_SERVICE_NAME");
  app.add_option("--otlp-resource", options.otlp_resource,
                 "NAME=VALUE that every span's resource has, with commas between several; percent "
                 "signs and two digits stand for other characters")
      ->type_name("NAME=VALUE")
      ->delimiter(',')
      ->envname("OTEL_RESOURCE_ATTRIBUTES");
  app.add_option(
         "--trace-sampling", options.trace_sampling,
         "Of requests whose callers trace nothing, the share that is traced, 0 to 1; callers "
         "that trace decide for themselves")
      ->check(CLI::Range(0.0, 1.0))
      ->check(kNumber)
      ->envname(EnvironmentVariable("--trace-sampling"));
  app.add_option("--trace-forced-per-second", options.trace_forced_per_second,
                 "Requests a second that are traced because their callers ask for it; 0: none")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}))
      ->envname(EnvironmentVariable("--trace-forced-per-second"));
}

void AddFlags(CLI::App& app, ParsedCommandLine& parsed) {
  ServerOptions& options = parsed.options;
  app.name("fovea-server");
  app.description(
      "fovea-server: serves vision transformers over gRPC and HTTP and tells what their attention "
      "costs.\n"
      "Every flag can also be given as an environment variable, shown beside it, or in the file of "
      "--config.");
  app.set_version_flag("--version", std::string("fovea-server ") + kVersion,
                       "Print the version and exit");
  app.get_formatter()->column_width(42);
  app.set_config(
         "--config", "",
         "A file with flags: a line `grpc-port = 8001` for each, a flag without a value as "
         "`true`, several values as [\"a\", \"b\"], # before a remark. Flags and environment "
         "variables go before it")
      ->type_name("FILE")
      ->envname(EnvironmentVariable("--config"));
  app.add_flag("--check-config", parsed.check,
               "Check flags, file, ports and model folders, print the configuration that results "
               "and exit, with 0 where nothing is wrong")
      ->configurable(false);
  app.option_defaults()->always_capture_default();

  auto add = [&](const std::string& flag, auto& value, const std::string& text) {
    return app.add_option(flag, value, text)->envname(EnvironmentVariable(flag));
  };
  const auto group = [&](const char* name) { app.option_defaults()->group(name); };

  group("Models");
  CLI::Option* repository = add("--model-repository", options.model_repositories,
                                "A folder of models (<name>/model.textproto, <name>/labels.txt, "
                                "<name>/<version>/model.safetensors); give the "
                                "flag again for more folders")
                                ->type_name("FOLDER")
                                ->required();
  app.add_flag_function(
         "--pre-stop",
         [&parsed, repository](int64_t) {
           parsed.pre_stop = true;
           repository->required(false);
         },
         "For Kubernetes' preStop, in the server's container: let the server's health read "
         "NOT_SERVING, wait for --drain-delay and exit; the server goes on answering, and SIGTERM "
         "then stops it without that delay")
      ->configurable(false);
  group("Ports");
  add("--host", options.host, "Address to listen on; 0.0.0.0 for every interface");
  add("--http-port", options.http_port,
      "Port of HTTP: the Open Inference Protocol's REST, /v1/classify, /v1/detect and "
      "/v1/segment, and the playground; 0 takes a free one, -1 serves none")
      ->check(CLI::Range(-1, 65535));
  add("--http-allow-origin", options.http_allow_origins,
      "An origin (https://app.example.org) whose pages may send requests from a browser and read "
      "the answers, * for any; give the flag again for more. Without it pages may only GET");
  add("--http-host", options.http_hosts,
      "A name by which callers reach HTTP and metrics, besides addresses, localhost and those of "
      "--host and --http-allow-origin; several separated by commas; * for any. Other names are "
      "refused, except over TLS or, with API keys, from programs: the owner of a web page can "
      "point its name here (DNS rebinding)")
      ->delimiter(',');
  add("--playground", options.playground,
      "on: the port of HTTP answers a browser that opens it with pages that try models, compare "
      "attentions and show the metrics, with the rights of whoever opened them; off: it does not")
      ->check(CLI::IsMember({"on", "off"}));
  add("--grpc-port", options.grpc_port, "Port of gRPC; 0 takes a free one, which is printed")
      ->check(CLI::Range(0, 65535));
  add("--metrics-port", options.metrics_port,
      "Port of Prometheus metrics over HTTP, at /metrics; 0 takes a free one, -1 serves none")
      ->check(CLI::Range(-1, 65535));
  app.add_flag("--triton-metrics", options.triton_metrics,
               "Metrics under Triton's names (nv_inference_request_success and others) too, for "
               "dashboards and autoscalers that were made for it")
      ->envname(EnvironmentVariable("--triton-metrics"));
  group("TLS, keys, and what ports answer");
  auto* const tls_cert =
      add("--tls-cert", options.tls_cert,
          "TLS on every port: a PEM file with the server's certificate and those "
          "that lead to its issuer; read again when it changes")
          ->check(kNotEmpty);
  auto* const tls_key =
      add("--tls-key", options.tls_key, "Its key, a PEM file without passphrase")->check(kNotEmpty);
  add("--tls-client-ca", options.tls_client_ca,
      "Mutual TLS: a PEM file with the issuers of callers' certificates; callers without one are "
      "turned away")
      ->check(kNotEmpty)
      ->needs(tls_cert);
  tls_cert->needs(tls_key);
  tls_key->needs(tls_cert);
  app.add_flag("--metrics-plaintext", options.metrics_plaintext,
               "With TLS: leave the port of metrics without it")
      ->envname(EnvironmentVariable("--metrics-plaintext"))
      ->needs(tls_cert);
  add("--api-keys-file", options.api_keys_file,
      "JSON of the API keys that callers need, with what each may call and how often "
      "(docs/operations/security.md); "
      "read again when it changes")
      ->check(kNotEmpty);
  const std::vector<std::string> groups(kApiGroupNames.begin(), kApiGroupNames.end());
  for (const auto& [flag, value, what] : {std::tuple("--grpc-api", &options.grpc_api, "gRPC"),
                                          std::tuple("--http-api", &options.http_api, "HTTP")}) {
    add(flag, *value,
        std::string("Groups of methods that the port of ") + what +
            " answers, with commas between them; health always is, and without the flag all are")
        ->delimiter(',')
        ->check(CLI::IsMember(groups));
  }
  group("Models");
  add("--model-control-mode", options.model_control_mode,
      "none: every model is loaded at the start, and what has changed at SIGHUP; explicit: "
      "--load-model's, and by request; poll: the folders are watched for changes")
      ->check(CLI::IsMember({"none", "explicit", "poll"}));
  add("--load-model", options.load_models,
      "With explicit control: a model to load at the start; give the flag again for more");
  app.add_flag(
         "--exit-on-load-error", options.exit_on_load_error,
         "Exit with 1 when a model that is loaded at the start cannot be; without it the server "
         "answers for the others (--strict-readiness)")
      ->envname(EnvironmentVariable("--exit-on-load-error"));
  add("--strict-readiness", options.strict_readiness,
      "true: not ready until every model of the start has loaded; false: until each has been "
      "tried, so that a broken one does not keep the others from being used")
      ->check(CLI::IsMember({"true", "false"}));
  add("--repository-poll-secs", options.repository_poll_secs,
      "With poll: seconds between two looks")
      ->check(CLI::Range(1, 86'400));
  add("--repository-settle-secs", options.repository_settle_secs,
      "With poll: seconds in which nothing of a model's folder has to change before it is loaded; "
      "turn it up where copies into the repository pause for longer")
      ->check(CLI::Range(0, 86'400));
  add("--canary-interval-secs", options.canary_interval_secs,
      "Seconds between two rounds in which each version that has a canary is asked for it, and "
      "leaves service while it answers wrongly; 0: only before it serves")
      ->check(CLI::Range(0, 86'400));
  group("Stopping");
  add("--drain-delay", options.drain_delay_ms,
      "After SIGTERM: milliseconds in which requests are still accepted while health already reads "
      "NOT_SERVING; turn "
      "it up to the time your load balancer takes to notice")
      ->check(CLI::Range(0, 600'000));
  add("--drain-timeout", options.drain_timeout_ms,
      "After SIGTERM: milliseconds that accepted requests have to finish; what is left then is "
      "given up and the server exits with 1")
      ->check(CLI::Range(0, 3'600'000));
  group("Threads and memory");
  add("--threads", options.threads,
      "Processors for running models, which share them; 0: those of the affinity mask and the "
      "cgroup's quota")
      ->check(CLI::Range(0, 1024));
  add("--imaging-threads", options.imaging_threads,
      "Threads that decode and resize images, at lower priority; 0: as many as processors")
      ->check(CLI::Range(0, 1024));
  add("--gpu-batches", options.gpu_batches,
      "Batches that run on each GPU at a time, of all models together: with two, one is copied "
      "while the other is computed; turn it up where models' small batches leave the GPU idle")
      ->check(CLI::Range(1, limits::kMaxInstances));
  const CLI::AsSizeValue as_size(/*kb_is_1000=*/false);
  // "-1" comes here as the largest number.
  const CLI::Range any_size(uint64_t{0}, uint64_t{std::numeric_limits<int64_t>::max()});
  add("--max-gpu-bytes", options.max_gpu_bytes,
      "What all models together may hold of each GPU's memory, with as many batches as run at a "
      "time (bytes, or 512MiB, 4GiB). It is set aside when a model loads, which is refused where "
      "too little is left. 0: what was free when the server started")
      ->transform(as_size)
      ->check(any_size);
  add("--max-device-bytes", options.max_device_bytes,
      "What a model's weights and one batch of it may hold on its device (bytes, or 512MiB, 4GiB). "
      "Batches of each of its sizes are measured before it is ready; images of a size that holds "
      "more are answered RESOURCE_EXHAUSTED. 0: as much as there is")
      ->transform(as_size)
      ->check(any_size);
  app.add_flag("--allow-client-shm", options.allow_client_shm,
               "Let callers register POSIX shared memory and have their tensors there. Only where "
               "every caller runs on this machine and may read and write all shared memory that "
               "the server's user may")
      ->envname(EnvironmentVariable("--allow-client-shm"));
  app.add_flag(
         "--enable-experiments", options.enable_experiments,
         "Let callers compare, sweep and explain attentions, have models served with others, and "
         "run live comparisons, which decide where a model's traffic goes: models are loaded once "
         "more, and run between the batches of what serves")
      ->envname(EnvironmentVariable("--enable-experiments"));
  for (const LimitFlag& limit : LimitFlags()) {
    group(limit.group);
    add(limit.flag, options.*limit.value, HelpOf(limit))->check(Within(limit));
  }
  group("Logs");
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
  AddTraceFlags(app, options);
}

constexpr std::string_view kPrefix = "FOVEA_";

// Variables with the prefix that belong to no server flag: those of the kernels, and those of the
// clients, from whose shell a server may be started.
constexpr const char* kOthersVariables[] = {
    "FOVEA_API_KEY",        "FOVEA_BUILD",      "FOVEA_CACHE",        "FOVEA_CHOICES",
    "FOVEA_CHOOSE",         "FOVEA_CUDA_TYPES", "FOVEA_FORCE_KERNEL", "FOVEA_KERNELS_LIBRARY",
    "FOVEA_MODELS_LIBRARY", "FOVEA_SERVER",     "FOVEA_TLS_CA"};

// Kubernetes sets such variables in every container for a service called fovea.
bool IsOfKubernetes(std::string_view name, std::string_view value) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return value.starts_with("tcp://") || value.starts_with("udp://") || has("_SERVICE_HOST") ||
         has("_SERVICE_PORT") || has("_TCP_") || has("_UDP_");
}

// A line for each flag's variable that is set but empty. CLI11 would ignore it, so that a forgotten
// file name would silently mean "no file".
std::vector<std::string> EmptyVariables(const CLI::App& app) {
  std::vector<std::string> found;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_envname();
    const char* value = name.starts_with(kPrefix) ? std::getenv(name.c_str()) : nullptr;
    if (value == nullptr || *value != '\0') continue;
    found.push_back(name + " is set and empty: unset it where there is none");
  }
  return found;
}

std::vector<std::string> UnknownVariables(const CLI::App& app) {
  std::set<std::string, std::less<>> known(std::begin(kOthersVariables),
                                           std::end(kOthersVariables));
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_envname().starts_with(kPrefix)) flags.push_back(option->get_envname());
  }
  known.insert(flags.begin(), flags.end());
  std::vector<std::string> found;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t sign = text.find('=');
    const std::string_view name = text.substr(0, sign);
    const std::string_view value = sign < text.size() ? text.substr(sign + 1) : "";
    if (!name.starts_with(kPrefix) || known.contains(name)) continue;
    if (IsOfKubernetes(name, value)) continue;
    found.push_back(absl::StrCat("the environment variable ", std::string(name),
                                 " does not belong to any flag; fovea-server --help lists them",
                                 DidYouMean(name, flags)));
  }
  return found;
}

// The flag that `sentence` names first; none if it names no flag.
const CLI::Option* FlagIn(const CLI::App& app, std::string_view sentence) {
  const auto in_name = [](char c) { return absl::ascii_isalnum(c) || c == '-'; };
  const CLI::Option* first = nullptr;
  size_t least = std::string_view::npos;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const size_t at = sentence.find(name);
    if (at >= least || name.empty()) continue;
    const size_t end = at + name.size();
    if (end < sentence.size() && in_name(sentence[end])) continue;  // a longer one
    least = at;
    first = option;
  }
  return first;
}

// Prefix for `mistake` with the source of the first flag that it names: "FILE, line 3: " or
// "FOVEA_GRPC_PORT: "; empty for the command line.
std::string OriginOf(const std::string& mistake, const CLI::App& app, const ConfigFile& file,
                     std::span<const char* const> arguments) {
  const CLI::Option* flag = FlagIn(app, mistake);
  if (flag == nullptr) return "";
  for (const std::string_view argument : arguments) {
    if (argument.substr(0, argument.find('=')) == flag->get_name()) return "";
  }
  const char* variable = std::getenv(flag->get_envname().c_str());
  if (variable != nullptr && *variable != '\0') return flag->get_envname() + ": ";
  const int line = file.LineOf(flag->get_single_name());
  if (line == 0) return "";
  return absl::StrCat(app.get_config_ptr()->as<std::string>(), ", line ", line, ": ");
}

// Flags that do not go together; each of them is a line.
std::vector<std::string> Contradictions(const ServerOptions& options) {
  std::vector<std::string> found;
  if (!options.load_models.empty() && options.model_control_mode != "explicit") {
    found.push_back("--load-model needs --model-control-mode explicit");
  }
  const RequestMemoryParts memory = ShareOut(options);
  if (memory.messages < options.max_message_mb) {
    found.push_back(absl::StrCat("--request-memory ", options.request_memory_mb, " leaves ",
                                 std::max<int64_t>(memory.messages, 0),
                                 " MiB for messages beside --imaging-memory ",
                                 options.imaging_memory_mb, ", and --max-message is ",
                                 options.max_message_mb, ": raise the first or lower the others"));
  }
  const std::pair<const char*, int> ports[] = {{"--grpc-port", options.grpc_port},
                                               {"--http-port", options.http_port},
                                               {"--metrics-port", options.metrics_port}};
  for (const auto& [flag, port] : ports) {
    for (const auto& [other, other_port] : ports) {
      if (flag == other) break;
      if (port > 0 && port == other_port) {
        found.push_back(absl::StrCat(other, " and ", flag, " are both ", port));
      }
    }
  }
  return found;
}

}  // namespace

RequestMemoryParts ShareOut(const ServerOptions& options) {
  const int64_t others = options.request_memory_mb - options.imaging_memory_mb;
  return {
      .messages = others / 2, .images = options.imaging_memory_mb, .requests = others - others / 2};
}

ParsedCommandLine ParseCommandLine(int argc, const char* const* argv) {
  const std::span<const char* const> arguments(argv, static_cast<size_t>(argc));
  ParsedCommandLine parsed;
  CLI::App app;
  AddFlags(app, parsed);
  const auto file = std::make_shared<ConfigFile>(app);
  app.config_formatter(file);
  app.failure_message([&](const CLI::App*, const CLI::Error& error) {
    const std::string told = RefusalMessage(&app, error);
    const bool of_file = dynamic_cast<const CLI::ConfigError*>(&error) != nullptr;
    return absl::StrCat(of_file ? app.get_config_ptr()->as<std::string>() + ", "
                                : OriginOf(error.what(), app, *file, arguments),
                        told);
  });
  const auto refuse = [&parsed](const std::vector<std::string>& mistakes) {
    for (const std::string& mistake : mistakes) {
      std::cerr << mistake << '\n';
      parsed.exit_code = 2;
    }
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    parsed.exit_code = code == 0 ? 0 : 2;
    if (code != 0) refuse(EmptyVariables(app));  // which may be why
    parsed.check = parsed.pre_stop = false;
    return parsed;
  }
  parsed.unknown_variables = UnknownVariables(app);
  refuse(EmptyVariables(app));
  std::vector<std::string> contradictions = Contradictions(parsed.options);
  for (std::string& mistake : contradictions) {
    mistake.insert(0, OriginOf(mistake, app, *file, arguments));
  }
  refuse(contradictions);
  parsed.serve = parsed.exit_code == 0 && !parsed.check && !parsed.pre_stop;
  parsed.effective = app.config_to_str();
  return parsed;
}

void VisitCommandLine(const std::function<void(const CLI::App&)>& visit) {
  ParsedCommandLine parsed;
  CLI::App app;
  AddFlags(app, parsed);
  visit(app);
}

}  // namespace fovea
