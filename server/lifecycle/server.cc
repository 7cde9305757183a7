#include "server/lifecycle/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/limits.h"
#include "base/status.h"
#include "kernels/barrier_waits.h"
#include "server/api/server_api.h"
#include "server/core/log.h"
#include "server/core/mutex.h"
#include "server/core/start_threads.h"
#include "server/core/version.h"
#include "server/executor/gpus.h"
#include "server/executor/torch_status.h"
#include "server/imaging/imaging_pool.h"
#include "server/lifecycle/available_cpus.h"
#include "server/lifecycle/available_memory.h"
#include "server/lifecycle/credentials.h"
#include "server/lifecycle/exit_deadline.h"
#include "server/lifecycle/experiments.h"
#include "server/lifecycle/observers.h"
#include "server/lifecycle/server_phase.h"
#include "server/lifecycle/service_manager.h"
#include "server/lifecycle/signals.h"
#include "server/lifecycle/stop_request.h"
#include "server/lifecycle/tracing.h"
#include "server/observe/access_log.h"
#include "server/observe/logging.h"
#include "server/observe/metrics.h"
#include "server/pipeline/served_model.h"
#include "server/repository/model_repository.h"
#include "server/scheduler/scheduler.h"
#include "server/shared_memory/shared_memory_object.h"
#include "server/shared_memory/shared_memory_regions.h"
#include "server/transport/grpc/grpc_server.h"
#include "server/transport/http/cross_origin.h"
#include "server/transport/http/http_api.h"
#include "server/transport/http/http_server.h"
#include "server/transport/http/metrics_page.h"

namespace fovea {
namespace {

// For what cannot be interrupted: a read of a disk that hangs, a step of a model that is being
// loaded.
constexpr Nanos kHangGrace = 8 * kSecond;
// What a drain takes beyond its own times: requests that are given up, and the wait for quiet.
constexpr Nanos kGiveUpGrace =
    limits::kGiveUpSeconds * kSecond + limits::kMaxQuietWaitMs * kMillisecond;

// A GPU that is lost: requests that need none have this time to finish. The process ends when those
// that are given up have been told, answers of a drain under way have been read, and spans
// exported.
constexpr Nanos kLostGpuDrain = 2 * kSecond;
constexpr Nanos kUnreadGrace = limits::kUnreadAnswerSeconds * kSecond;
constexpr Nanos kLostGpuExit =
    kLostGpuDrain + std::max(kGiveUpGrace, kUnreadGrace) + limits::kSpanFlushSeconds * kSecond;

// Of models that keep the server from being ready; the index has the others.
constexpr int kReasonsTold = 8;
constexpr Nanos kBetweenForecasts = 5 * kSecond;  // of the log, while models load at the start

// Weights that may load at a time: they are in memory twice then, and half of it is left to others.
int64_t LoadBytes() {
  constexpr int64_t kWhereNobodyKnows = int64_t{4} << 30;
  return FindAvailableMemory().value_or(4 * kWhereNobodyKnows) / 4;
}

AccessLogOptions ToAccessLogOptions(const ServerOptions& options) {
  AccessLogOptions access{.sample = options.access_log_sample};
  if (options.access_log == "off") access.mode = AccessLogMode::kOff;
  if (options.access_log == "all") access.mode = AccessLogMode::kAll;
  return access;
}

// Their names have been checked.
ApiGroups Groups(const std::vector<std::string>& names) {
  if (names.empty()) return ApiGroups::All();
  ApiGroups groups;
  for (const std::string& name : names) groups.Add(name);
  return groups;
}

ApiGroups HttpGroups(const ServerOptions& options) {
  ApiGroups groups = Groups(options.http_api);
  if (options.playground == "off") groups.Remove(ApiGroup::kPlayground);
  return groups;
}

ModelControl ControlMode(const std::string& text) {
  if (text == "explicit") return ModelControl::kExplicit;
  return text == "poll" ? ModelControl::kPoll : ModelControl::kNone;
}

int CannotStart(const absl::Status& why) {
  Log(LogLevel::kError, absl::StrCat("cannot start: ", why.message()));
  return 1;
}

// Ends the process whatever hangs, the log's reader included.
[[noreturn]] void EndNow(int exit_code) {
  FlushLog(std::chrono::milliseconds(limits::kHastyLogFlushMs));
  std::_Exit(exit_code);
}

std::vector<GpuAllocator> AllocatorsOf(const Gpus& gpus) {
  std::vector<GpuAllocator> allocators;
  for (GpuMemory& memory : MemoryOf(gpus)) {
    allocators.push_back({.uuid = std::move(memory.uuid),
                          .kinds = {{"allocated", memory.allocated},
                                    {"reserved", memory.reserved},
                                    {"set_aside", memory.set_aside},
                                    {"limit", memory.limit}}});
  }
  return allocators;
}

// Of a flag whose 0 means any number.
int64_t BytesOrAny(uint64_t bytes) {
  return bytes == 0 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(bytes);
}

GrpcServerOptions GrpcOptions(const ServerOptions& options, const RequestMemoryParts& memory,
                              std::shared_ptr<const TlsCertificates> tls) {
  return {.host = options.host,
          .port = options.grpc_port,
          .max_message_bytes = options.max_message_mb * limits::kMiB,
          .max_buffer_bytes = memory.messages * limits::kMiB,
          .handshake_ms = options.handshake_timeout_ms,
          .max_concurrent_streams = options.grpc_max_concurrent_streams,
          .max_stream_requests = options.grpc_max_stream_requests,
          .keepalive_time_ms = options.grpc_keepalive_time_ms,
          .keepalive_timeout_ms = options.grpc_keepalive_timeout_ms,
          .min_ping_interval_ms = options.grpc_min_ping_interval_ms,
          .max_ping_strikes = options.grpc_max_ping_strikes,
          .max_connection_idle_ms = options.grpc_max_connection_idle_ms,
          .max_connection_age_ms = options.grpc_max_connection_age_ms,
          .max_connection_age_grace_ms = options.grpc_max_connection_age_grace_ms,
          .groups = Groups(options.grpc_api),
          .tls = std::move(tls)};
}

// What the two HTTP ports share.
HttpServerOptions HttpOptions(const ServerOptions& options, int port,
                              std::shared_ptr<const TlsCertificates> tls) {
  return {.host = options.host,
          .port = port,
          .handshake_time = options.handshake_timeout_ms * kMillisecond,
          .head_time = options.http_head_timeout_ms * kMillisecond,
          .transfer_time = options.http_transfer_timeout_ms * kMillisecond,
          .tls = std::move(tls)};
}

// The server's parts, in the order in which they may be made; they go in the opposite one.
class Server {
 public:
  ~Server() {
    {
      // api_ goes before repository_, whose threads tell of lost GPUs until they are joined.
      MutexLock lock(api_mutex_);
      api_is_there_ = false;
    }
    // Images that still wait hold their model, which the repository's threads give back.
    metrics_port_.reset();
    http_.reset();
    grpc_.reset();
    if (experiments_ != nullptr) experiments_->Stop();
    if (imaging_ != nullptr) imaging_->Stop();
  }

  // `stop` outlives it.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerOptions& options,
                                                        StopRequest& stop) {
    std::unique_ptr<Server> server(new Server(options, stop));
    FOVEA_RETURN_IF_ERROR(server->Build());
    return server;
  }

  // Loads the models while the port already answers, serves, and drains. Returns the exit code.
  // What hangs beyond the drain's time is ended by `deadline`.
  int Run(ExitDeadline& deadline) {
    const std::string grpc = Address(grpc_.get()), http = Address(http_.get());
    const std::string metrics = Address(metrics_port_.get());
    Announce(absl::StrCat("listening: grpc=", grpc, " http=", http, " metrics=", metrics),
             {{"event", "listening"}, {"grpc", grpc}, {"http", http}, {"metrics", metrics}});
    NotifyServiceManager("READY=1\nSTATUS=loading models");
    deadline_ = &deadline;
    std::thread loading;
    const absl::Status started =
        StartThreads([&] { loading = std::thread([this] { LoadModels(); }); });
    if (!started.ok()) return CannotStart(started);
    const int asked_for = stop_.Wait();
    const int exit_code = Drain(asked_for, deadline);
    loading.join();
    return exit_code;
  }

  // Health reads NOT_SERVING from here on, while everything is accepted that comes: who looks at
  // health sends no more, and the drain delay is spent before the stop. Thread-safe.
  void Leave() {
    if (!phase_.Advance(Phase::kDraining)) return;
    Log(LogLevel::kInfo, "SIGUSR1: health reads NOT_SERVING from here on, until SIGTERM stops");
  }

  // Looks at the repository again, without waiting for it. Thread-safe.
  void Reload() {
    if (repository_->Rescan()) {
      Log(LogLevel::kInfo, "SIGHUP: looking at the repository again");
    } else {
      Log(LogLevel::kWarning,
          "SIGHUP: nothing is loaded again, because callers say what serves "
          "(--model-control-mode explicit)");
    }
  }

 private:
  Server(const ServerOptions& options, StopRequest& stop) : options_(options), stop_(stop) {}

  // Of a port that is open; "none" of one that is not.
  template <typename Port>
  std::string Address(const Port* port) const {
    return port == nullptr ? "none" : absl::StrCat(options_.host, ":", port->port());
  }

  absl::Status Build() {
    const AvailableCpus cpus = FindAvailableCpus();
    const int device_threads = options_.threads > 0 ? options_.threads : cpus.threads();
    const int imaging_threads =
        options_.imaging_threads > 0 ? options_.imaging_threads : cpus.threads();
    Log(LogLevel::kInfo, absl::StrCat("may use ", cpus.Text(), ": ", device_threads,
                                      " for models, ", imaging_threads, " for images"));
    FOVEA_RETURN_IF_ERROR(StartThreads([&] {
      barrier_waits_.emplace(device_threads, [](bool sleep, double others) {
        Log(LogLevel::kInfo,
            absl::StrFormat("other programs use %.1f cores: threads %s at barriers", others,
                            sleep ? "sleep" : "spin"));
      });
    }));
    FOVEA_ASSIGN_OR_RETURN(credentials_, Credentials::Create(options_, metrics_, clock_));
    FOVEA_ASSIGN_OR_RETURN(tracing_, Tracing::Create(options_, metrics_, clock_));
    answers_.emplace(metrics_, access_log_, *tracing_->tracer());
    FOVEA_ASSIGN_OR_RETURN(scheduler_,
                           Scheduler::Create({.device_threads = device_threads}, clock_));
    FOVEA_ASSIGN_OR_RETURN(const Gpus gpus, FindGpus(BytesOrAny(options_.max_gpu_bytes)));
    Log(LogLevel::kInfo, absl::StrCat("may use ", TextOf(gpus)));
    if (!gpus.empty()) {
      metrics_.WatchGpus([gpus] { return AllocatorsOf(gpus); });
      const int at_once = static_cast<int>(gpus.size()) * options_.gpu_batches;
      FOVEA_ASSIGN_OR_RETURN(gpu_scheduler_,
                             Scheduler::Create({.device_threads = at_once}, clock_));
    }
    const RequestMemoryParts memory = ShareOut(options_);
    FOVEA_ASSIGN_OR_RETURN(
        imaging_, ImagingPool::Create({.threads = imaging_threads,
                                       .max_queued = static_cast<int>(options_.imaging_queue_size),
                                       .memory_bytes = memory.images * limits::kMiB},
                                      clock_));
    std::vector<std::unique_ptr<RepositoryFs>> folders;
    for (const std::string& folder : options_.model_repositories) {
      folders.push_back(MakeRepositoryFs(folder));
    }
    const ServedModel::Environment environment{
        .scheduler = *scheduler_,
        .imaging = *imaging_,
        .clock = clock_,
        .observe =
            [this](const std::shared_ptr<const ModelView>& model) {
              return ObserveModel(metrics_, *model);
            },
        .device_threads = device_threads,
        .gpus = gpus,
        .gpu_scheduler = gpu_scheduler_.get(),
        .drain_timeout_us = int64_t{options_.drain_timeout_ms} * 1000,
        .available_memory = [] { return FindAvailableMemory(); },
        .max_device_bytes = BytesOrAny(options_.max_device_bytes),
        .max_image_bytes = options_.max_image_mb * limits::kMiB,
        .max_image_pixels = options_.max_image_pixels,
        .warm_up_turn = &warm_up_turn_,
        .on_gpu_lost = [this] { EndWithoutGpu(); }};
    FOVEA_ASSIGN_OR_RETURN(
        repository_, ModelRepository::Create(
                         {.control = ControlMode(options_.model_control_mode),
                          .load_models = options_.load_models,
                          .poll_period = options_.repository_poll_secs * kSecond,
                          .settle = options_.repository_settle_secs * kSecond,
                          .canary_interval = options_.canary_interval_secs * kSecond,
                          .loader_threads = std::min(cpus.threads(), limits::kMaxLoaderThreads),
                          .load_bytes = LoadBytes()},
                         std::move(folders),
                         [environment](const VersionToLoad& model) {
                           return ServedModel::Create(model, environment);
                         },
                         repository_log_, clock_));
    if (options_.enable_experiments) {
      FOVEA_ASSIGN_OR_RETURN(experiments_,
                             Experiments::Create(options_, environment, *repository_, metrics_,
                                                 memory.requests * limits::kMiB));
    }
    ModelCatalog& catalog = experiments_ != nullptr ? experiments_->catalog()
                                                    : static_cast<ModelCatalog&>(*repository_);
    const SharedMemoryOptions shared{.max_regions =
                                         static_cast<size_t>(options_.max_shared_memory_regions)};
    metrics_.WatchServer([this] {
      return ServerState{.ready = api_->serving(), .models = repository_->ModelsByState()};
    });
    ServerApiOptions api{.server_version = kVersion,
                         .request_bytes = memory.requests * limits::kMiB,
                         .tracer = tracing_->tracer(),
                         .log_format = options_.log_format,
                         .why_not_ready = [this] { return WhyNotServing(); }};
    if (options_.allow_client_shm) {
      api.shared_memory = std::make_shared<SharedMemoryRegions>(OpenPosixSharedMemory, shared);
    }
    if (experiments_ != nullptr) experiments_->FillApi(api);
    FOVEA_ASSIGN_OR_RETURN(
        api_, ServerApi::Create(std::move(api), catalog, metrics_, &*answers_, clock_));
    FOVEA_RETURN_IF_ERROR(credentials_->Guard(api_->authenticator()));
    FOVEA_ASSIGN_OR_RETURN(
        grpc_, GrpcServer::Create(GrpcOptions(options_, memory, credentials_->tls()), *api_));
    const int64_t max_message_bytes = options_.max_message_mb * limits::kMiB;
    for (const std::string& origin : options_.http_allow_origins) {
      FOVEA_RETURN_IF_ERROR(CheckOrigin(origin));
    }
    for (const std::string& host : options_.http_hosts) {
      FOVEA_RETURN_IF_ERROR(CheckHttpHost(host));
    }
    if (options_.http_port >= 0) {
      http_context_ = std::make_unique<HttpContext>(
          HttpContext{*api_, max_message_bytes, limits::kMaxAnswerBytes, HttpGroups(options_),
                      [this] { return metrics_.Text(); }});
      HttpServerOptions http = HttpOptions(options_, options_.http_port, credentials_->tls());
      http.idle = options_.http_max_connection_idle_ms * kMillisecond;
      http.threads = static_cast<int>(options_.http_threads);
      http.max_connections = static_cast<int>(options_.http_max_connections);
      http.max_body_bytes = max_message_bytes;
      http.check = MakeHttpCheck(*http_context_);
      FOVEA_ASSIGN_OR_RETURN(
          http_, HttpServer::Create(http, api_->memory(), clock_,
                                    GuardHosts(HttpHosts(), !options_.api_keys_file.empty(),
                                               GuardOrigins(options_.http_allow_origins,
                                                            MakeHttpApi(*http_context_)))));
    }
    if (options_.metrics_port >= 0) {
      HttpServerOptions scrapes =
          HttpOptions(options_, options_.metrics_port,
                      options_.metrics_plaintext ? nullptr : credentials_->tls());
      scrapes.port_flag = "--metrics-port";
      scrapes.threads = scrapes.slow_threads = 1;
      scrapes.max_connections = limits::kMaxMetricsConnections;
      scrapes.max_body_bytes = limits::kMaxMetricsBodyBytes;
      FOVEA_ASSIGN_OR_RETURN(
          metrics_port_,
          HttpServer::Create(scrapes, metrics_memory_, clock_,
                             GuardHosts(HttpHosts(), /*keys=*/false,
                                        MakeMetricsPage([this] { return metrics_.Text(); }))));
    }
    Log(LogLevel::kInfo, absl::StrCat("requests may hold ", options_.request_memory_mb,
                                      " MiB: ", memory.messages, " of gRPC's messages, ",
                                      memory.images, " of images being decoded, ", memory.requests,
                                      " of HTTP's bodies, what is made of messages, and answers; "
                                      "the models' weights and activations "
                                      "come on top"));
    return absl::OkStatus();
  }

  // Names by which callers may reach HTTP. The host of an allowed origin may be the server's own;
  // an origin of "*" adds no name.
  std::vector<std::string> HttpHosts() const {
    std::vector<std::string> hosts = options_.http_hosts;
    hosts.push_back(options_.host);
    for (const std::string& origin : options_.http_allow_origins) {
      if (origin != "*") hosts.push_back(origin);
    }
    return hosts;
  }

  // On a thread of its own: the disk may take its time.
  void LoadModels() {
    if (const absl::Status started = repository_->Start(); !started.ok()) {
      Log(LogLevel::kError, absl::StrCat("cannot start: ", started.message()));
      stop_.Add(1);
      return;
    }
    while (!repository_->WaitUntilTried(clock_.Now() + kBetweenForecasts)) {
      const std::string loading = absl::StrCat("loading: ", HowManyLoaded(repository_->startup()));
      Log(LogLevel::kInfo, loading);
      NotifyServiceManager("STATUS=" + loading);
    }
    if (phase_.now() != Phase::kStarting) return;  // asked to stop meanwhile
    const ModelRepository::Startup tried = repository_->startup();
    if (tried.models > 0) api_->health().NeedModel();
    if (!tried.missing.empty()) {
      const std::string why = WhyNotReady(tried);
      const bool strict = options_.strict_readiness == "true";
      Announce(absl::StrCat(strict ? "not ready: " : "ready without some models: ", why),
               {{"event", strict ? "not_ready" : "models_missing"},
                {"models", int64_t{tried.models}},
                {"missing", static_cast<int64_t>(tried.missing.size())}});
      if (strict) NotifyServiceManager(absl::StrCat("STATUS=not ready: ", why));
      if (options_.exit_on_load_error) {
        Log(LogLevel::kError, absl::StrCat("ending (--exit-on-load-error): ", why));
        stop_.Add(1);
        return;
      }
      if (strict) repository_->WaitUntilComplete();
    }
    if (!phase_.Advance(Phase::kServing)) return;
    // Some may have been unloaded, or added, while the others were waited for.
    const int serving = repository_->startup().serving;
    const std::string ready = absl::StrCat("ready: ", serving, serving == 1 ? " model" : " models");
    Announce(ready, {{"event", "ready"}, {"models", int64_t{serving}}});
    NotifyServiceManager("STATUS=" + ready);
  }

  // "18 of 19 models have loaded; cats: labels.txt:3: empty".
  static std::string WhyNotReady(const ModelRepository::Startup& startup) {
    const int missing = static_cast<int>(startup.missing.size());
    std::string why = HowManyLoaded(startup);
    for (int i = 0; i < std::min(missing, kReasonsTold); ++i) {
      absl::StrAppend(&why, "; ", startup.missing[i].name, ": ", startup.missing[i].reason);
    }
    if (missing > kReasonsTold) absl::StrAppend(&why, "; and ", missing - kReasonsTold, " more");
    return why;
  }

  NotReady WhyNotServing() const {
    const Phase phase = phase_.now();
    if (phase == Phase::kServing) return {.reason = "no model serves"};
    if (phase != Phase::kStarting) return {.reason = "the server is stopping"};
    ModelRepository::Startup startup = repository_->startup();
    NotReady why{.reason = HowManyLoaded(startup), .models = std::move(startup.missing)};
    if (why.models.size() > kReasonsTold) why.models.resize(kReasonsTold);
    return why;
  }

  // "18 of 19 models have loaded", and while others load ", about 3 s are left".
  static std::string HowManyLoaded(const ModelRepository::Startup& startup) {
    std::string told = absl::StrCat(startup.models - static_cast<int>(startup.missing.size()),
                                    " of ", startup.models, " models have loaded");
    if (startup.left)
      absl::StrAppend(&told, ", about ", *startup.left / kSecond + 1, " s are left");
    return told;
  }

  void OnPhase(Phase phase) {
    if (phase == Phase::kServing) api_->SetServing(true);
    if (phase != Phase::kDraining) return;
    left_at_.store(clock_.Now());
    api_->SetServing(false);
  }

  int Drain(int exit_code, ExitDeadline& deadline) {
    phase_.Advance(Phase::kDraining);
    // What is left of it where SIGUSR1 came first.
    const Nanos delay =
        std::max<Nanos>(0, left_at_.load() + options_.drain_delay_ms * kMillisecond - clock_.Now());
    const Nanos timeout = options_.drain_timeout_ms * kMillisecond;
    NotifyServiceManager("STOPPING=1\nSTATUS=answering what was accepted");
    deadline.Set(clock_.Now() + delay + timeout + kGiveUpGrace + kHangGrace, 1,
                 "ending: a call did not end within the drain timeout");
    if (gpu_lost_) HurryWithoutGpu();  // whose end this has put off
    Log(LogLevel::kInfo, "stopping: health reads NOT_SERVING from here on");
    if (experiments_ != nullptr) experiments_->CancelLoads();
    repository_->Stop();
    if (experiments_ != nullptr) experiments_->StopLiveComparisons();
    stop_.Sleep(delay);
    if (experiments_ != nullptr) experiments_->Stop();
    std::vector<Transport*> transports = {grpc_.get()};
    if (http_ != nullptr) transports.push_back(http_.get());
    const int cut_off = api_->Drain(transports, timeout);
    access_log_.Flush();
    tracing_->Stop(clock_.Now() + limits::kSpanFlushSeconds * kSecond);
    const bool lost = gpu_lost_;
    if (lost) exit_code = 1;  // also where it was lost since
    if (cut_off > 0) {
      exit_code = 1;
      Log(LogLevel::kError,
          absl::StrCat(cut_off, " requests did not finish within the drain timeout"));
    } else {
      Log(LogLevel::kInfo, "drained: every accepted request was answered");
    }
    phase_.Advance(Phase::kStopped);
    // HurryWithoutGpu has set a sooner end, which stays.
    if (!lost) {
      deadline.Set(clock_.Now() + kHangGrace, exit_code,
                   "ending without a load or a model's step that does not end");
      if (gpu_lost_) HurryWithoutGpu();  // lost meanwhile
    }
    return gpu_lost_ ? 1 : exit_code;
  }

  // A process never gets a GPU back that it has lost. Thread-safe.
  void EndWithoutGpu() {
    if (gpu_lost_.exchange(true)) return;
    Log(LogLevel::kError, "ending: a GPU is lost until another process is started");
    HurryWithoutGpu();
    stop_.Add(1);
  }

  // Also where the server drains already, with a delay that was meant for one that has its GPUs:
  // what needs the GPU fails at once, and the process that comes next has one.
  void HurryWithoutGpu() {
    const Nanos now = clock_.Now();
    if (ExitDeadline* const deadline = deadline_; deadline != nullptr) {
      deadline->SetNoLater(now + kLostGpuExit, 1, "ending: a GPU is lost");
    }
    stop_.Hurry();
    MutexLock lock(api_mutex_);
    if (api_is_there_) api_->HurryDrain(now + kLostGpuDrain);
  }

  const ServerOptions options_;
  StopRequest& stop_;
  std::atomic<bool> gpu_lost_ = false;
  Mutex api_mutex_;                                       // while a model's thread calls api_
  bool api_is_there_ ABSL_GUARDED_BY(api_mutex_) = true;  // until the destructor begins
  std::atomic<ExitDeadline*> deadline_ = nullptr;         // Run's
  Clock& clock_ = SteadyClock();
  Metrics metrics_{{.triton = options_.triton_metrics}};
  AccessLog access_log_{ToAccessLogOptions(options_), clock_};
  std::unique_ptr<Tracing> tracing_;
  std::optional<AnswerObserver> answers_;
  RepositoryLog repository_log_{metrics_};
  std::optional<kernels::AdaptiveBarrierWaits> barrier_waits_;
  Turn warm_up_turn_;
  std::unique_ptr<Scheduler> scheduler_, gpu_scheduler_;  // the second null: there are no GPUs
  std::unique_ptr<ImagingPool> imaging_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<Experiments> experiments_;  // null: there are none
  std::unique_ptr<ServerApi> api_;
  std::unique_ptr<Credentials> credentials_;  // its thread uses the api's keys
  std::unique_ptr<GrpcServer> grpc_;
  // Of scrapes alone: they are answered when requests hold all of theirs.
  MemoryBudget metrics_memory_{limits::kMetricsPortBytes, clock_};
  std::unique_ptr<HttpContext> http_context_;
  std::unique_ptr<HttpServer> http_, metrics_port_;  // null: none
  std::atomic<Nanos> left_at_{0};                    // when the phase became kDraining
  ServerPhase phase_{[this](Phase phase) { OnPhase(phase); }};
};

}  // namespace

int RunServer(const ServerOptions& options) {
  SilenceTorchWarnings();
  Clock& clock = SteadyClock();
  StopRequest stop(clock);
  Mutex mutex;
  bool building = true;  // both guarded by mutex
  Server* serving = nullptr;
  std::optional<ExitDeadline> deadline;
  std::optional<SignalThread> signals;
  const auto on_stop = [&](int count) {
    if (count > 1) {
      Log(LogLevel::kWarning, "asked to stop again: ending at once");
      EndNow(1);
    }
    MutexLock lock(mutex);
    // Where the server is not yet built, because its disk hangs, there is nothing to drain.
    if (building) {
      deadline->Set(clock.Now() + kHangGrace, 0, "ending: the server was still being started");
    }
    stop.Add(0);
  };
  const auto on_hangup = [&] {
    MutexLock lock(mutex);
    if (serving != nullptr) serving->Reload();
  };
  const auto on_leave = [&] {
    MutexLock lock(mutex);
    if (serving != nullptr) serving->Leave();
  };
  const absl::Status started = StartThreads([&] {
    deadline.emplace(clock, EndNow);
    signals.emplace(SignalThread::Handlers{on_stop, on_hangup, on_leave});
  });
  if (!started.ok()) return CannotStart(started);
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(options, stop);
  if (!server.ok()) return CannotStart(server.status());
  const auto set_serving = [&](Server* to) {
    MutexLock lock(mutex);
    building = false;
    serving = to;
  };
  set_serving(server->get());
  const int exit_code = (*server)->Run(*deadline);
  set_serving(nullptr);
  return exit_code;
}

}  // namespace fovea
