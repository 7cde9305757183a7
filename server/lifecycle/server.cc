#include "server/lifecycle/server.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/core/log.h"
#include "server/core/mutex.h"
#include "server/core/status.h"
#include "server/core/version.h"
#include "server/imaging/imaging_pool.h"
#include "server/lifecycle/exit_deadline.h"
#include "server/lifecycle/observers.h"
#include "server/lifecycle/server_phase.h"
#include "server/lifecycle/signals.h"
#include "server/observe/metrics.h"
#include "server/pipeline/inference_pipeline.h"
#include "server/pipeline/served_model.h"
#include "server/repository/model_repository.h"
#include "server/scheduler/scheduler.h"
#include "server/transport/grpc_server.h"

namespace fovea {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// For what cannot be interrupted, once everything else has ended: a read of a disk that hangs, a
// step of a model that is being loaded.
constexpr Nanos kExitGrace = 5 * kSecond;

int CoresOr(int wanted) {
  return wanted > 0 ? wanted : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ModelControl ControlMode(const std::string& text) {
  if (text == "explicit") return ModelControl::kExplicit;
  return text == "poll" ? ModelControl::kPoll : ModelControl::kNone;
}

// Tells the thread that serves that the process was asked to stop. Thread-safe.
class StopRequest {
 public:
  explicit StopRequest(Clock& clock) : clock_(clock) {}

  void Add() {
    MutexLock lock(mutex_);
    asked_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(mutex_);
    while (!asked_) clock_.WaitUntil(changed_, mutex_, kNever);
  }
  void Sleep(Nanos duration) {
    MutexLock lock(mutex_);
    const Nanos end = clock_.Now() + duration;
    while (clock_.Now() < end) clock_.WaitUntil(changed_, mutex_, end);
  }

 private:
  Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
};

// A line for people and for programs that started us, on standard output.
void Announce(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// The server's parts, in the order in which they may be made; they go in the opposite one.
class Server {
 public:
  ~Server() {
    // Images that still wait hold their model, which the repository's threads give back.
    grpc_.reset();
    if (imaging_ != nullptr) imaging_->Stop();
  }

  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerOptions& options) {
    std::unique_ptr<Server> server(new Server(options));
    FOVEA_RETURN_IF_ERROR(server->Build());
    return server;
  }

  // Loads the models while the port already answers, serves, and drains. Returns the exit code.
  // What hangs beyond the drain's time is ended by `deadline`.
  int Run(StopRequest& stop, ExitDeadline& deadline) {
    Announce(absl::StrCat(
        "listening: grpc=", options_.host, ":", grpc_->port(),
        " metrics=", metrics_port_ < 0 ? "none" : absl::StrCat(options_.host, ":", metrics_port_)));
    std::thread loading([this] {
      repository_->Start();
      repository_->WaitUntilLoaded();
      if (phase_.Advance(Phase::kServing)) Announce(absl::StrCat("ready: ", Ready()));
    });
    stop.Wait();
    const int exit_code = Drain(stop, deadline);
    loading.join();
    return exit_code;
  }

 private:
  explicit Server(const ServerOptions& options) : options_(options) {}

  absl::Status Build() {
    const int device_threads = CoresOr(options_.threads);
    FOVEA_ASSIGN_OR_RETURN(scheduler_,
                           Scheduler::Create({.device_threads = device_threads}, clock_));
    FOVEA_ASSIGN_OR_RETURN(imaging_,
                           ImagingPool::Create({.threads = CoresOr(options_.imaging_threads),
                                                .memory_bytes = options_.imaging_memory_mb * kMiB},
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
        .drain_timeout_us = int64_t{options_.drain_timeout_ms} * 1000};
    FOVEA_ASSIGN_OR_RETURN(repository_,
                           ModelRepository::Create(
                               {.control = ControlMode(options_.model_control_mode),
                                .load_models = options_.load_models,
                                .poll_period = options_.repository_poll_secs * kSecond},
                               std::move(folders),
                               [environment](const ParsedModel& model) {
                                 return ServedModel::Create(model, environment);
                               },
                               repository_log_, clock_));
    pipeline_ = std::make_unique<InferencePipeline>(
        [this](std::string_view name,
               std::string_view version) -> absl::StatusOr<std::shared_ptr<const ServedModel>> {
          FOVEA_ASSIGN_OR_RETURN(auto servable, repository_->Acquire(name, version));
          // Every servable was made by ServedModel::Create.
          return std::static_pointer_cast<const ServedModel>(std::move(servable));
        },
        *imaging_, clock_);
    inflight_ = std::make_unique<InflightCounter>(*pipeline_, metrics_);
    FOVEA_ASSIGN_OR_RETURN(
        grpc_, GrpcServer::Create({.host = options_.host,
                                   .port = options_.grpc_port,
                                   .server_version = kVersion,
                                   .max_message_bytes = options_.max_message_mb * kMiB,
                                   .max_buffer_bytes = options_.request_memory_mb * kMiB},
                                  *inflight_, *repository_, metrics_, &answers_, clock_));
    if (options_.metrics_port >= 0) {
      FOVEA_ASSIGN_OR_RETURN(metrics_port_, metrics_.Serve(options_.host, options_.metrics_port));
    }
    Log(LogLevel::kInfo,
        absl::StrCat("memory is bounded by ", options_.request_memory_mb, " MiB of requests, ",
                     options_.imaging_memory_mb,
                     " MiB of decoded pixels, and the models' weights and activations"));
    return absl::OkStatus();
  }

  // "2 models" and, where some are not ready, how many.
  std::string Ready() const {
    int ready = 0, failed = 0;
    for (const IndexEntry& entry : repository_->Index()) {
      ready += entry.state == ModelState::kReady;
      failed += entry.state == ModelState::kUnavailable && !entry.reason.empty();
    }
    return absl::StrCat(ready, ready == 1 ? " model" : " models",
                        failed > 0 ? absl::StrCat(", ", failed, " not loaded (see the log)") : "");
  }

  void OnPhase(Phase phase) {
    if (phase == Phase::kServing) grpc_->SetServing(true);
    if (phase == Phase::kDraining) grpc_->SetServing(false);
  }

  int Drain(StopRequest& stop, ExitDeadline& deadline) {
    const Nanos delay = options_.drain_delay_ms * kMillisecond;
    const Nanos timeout = options_.drain_timeout_ms * kMillisecond;
    deadline.Set(clock_.Now() + delay + timeout + kExitGrace, 1,
                 "ending: a call did not end within the drain timeout");
    Log(LogLevel::kInfo, "asked to stop: health reads NOT_SERVING from here on");
    phase_.Advance(Phase::kDraining);
    repository_->Stop();
    stop.Sleep(delay);
    const int cut_off = grpc_->Shutdown(timeout);
    const int exit_code = cut_off > 0 ? 1 : 0;
    if (cut_off > 0) {
      Log(LogLevel::kError,
          absl::StrCat(cut_off, " requests did not finish within the drain timeout"));
    } else {
      Log(LogLevel::kInfo, "drained: every accepted request was answered");
    }
    phase_.Advance(Phase::kStopped);
    deadline.Set(clock_.Now() + kExitGrace, exit_code,
                 "ending without a load or a model's step that does not end");
    return exit_code;
  }

  const ServerOptions options_;
  Clock& clock_ = SteadyClock();
  Metrics metrics_;
  AnswerCounter answers_{metrics_};
  RepositoryLog repository_log_{metrics_};
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ImagingPool> imaging_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<InferencePipeline> pipeline_;
  std::unique_ptr<InflightCounter> inflight_;
  std::unique_ptr<GrpcServer> grpc_;
  ServerPhase phase_{[this](Phase phase) { OnPhase(phase); }};
  int metrics_port_ = -1;
};

}  // namespace

int RunServer(const ServerOptions& options) {
  Clock& clock = SteadyClock();
  ExitDeadline deadline(clock, [](int code) { std::_Exit(code); });
  StopRequest stop(clock);
  SignalThread signals([&](int count) {
    if (count > 1) {
      Log(LogLevel::kWarning, "asked to stop again: ending at once");
      std::_Exit(1);
    }
    // The drain, which begins at once, gives itself longer. Where the server is not yet built,
    // because its disk hangs, there is nothing to drain.
    deadline.Set(clock.Now() + kExitGrace, 0, "ending: the server was still being started");
    stop.Add();
  });
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(options);
  if (!server.ok()) {
    Log(LogLevel::kError, absl::StrCat("cannot start: ", server.status().message()));
    return 1;
  }
  return (*server)->Run(stop, deadline);
}

}  // namespace fovea
