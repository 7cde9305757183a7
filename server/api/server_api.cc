#include "server/api/server_api.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/log.h"
#include "server/core/quote.h"
#include "server/core/server_stopping.h"
#include "server/core/start_threads.h"

namespace fovea {
namespace {

std::vector<std::string_view> ExtensionsOf(const ServerApiOptions& options) {
  std::vector<std::string_view> extensions = {"classification",   "model_configuration",
                                              "model_repository", "schedule_policy",
                                              "statistics",       "logging"};
  if (options.shared_memory != nullptr) extensions.push_back("system_shared_memory");
  if (options.tracer != nullptr && options.tracer->traces()) extensions.push_back("trace");
  if (options.explanations != nullptr) extensions.push_back("experiments");
  return extensions;
}

absl::Status CheckRepositoryName(std::string_view name) {
  if (name.empty()) return absl::OkStatus();
  return Unimplemented("repository.name", "repositories cannot be chosen by name");
}

struct LoadParameters {
  std::optional<std::string> config;
  std::vector<SentFile> files;
};

// Takes the files' bytes.
absl::StatusOr<LoadParameters> ReadParameters(LoadCall& call) {
  constexpr std::string_view kFile = "file:";
  LoadParameters parameters;
  for (LoadCall::Parameter& parameter : call.parameters) {
    if (parameter.name == "config" && parameter.text) {
      parameters.config = *std::move(parameter.text);
    } else if (parameter.name.starts_with(kFile) && parameter.bytes) {
      parameters.files.push_back(
          {.name = parameter.name.substr(kFile.size()), .bytes = *std::move(parameter.bytes)});
    } else {
      return InvalidArgument("repository.parameter",
                             absl::StrCat("unknown load parameter ", InQuotes(parameter.name)));
    }
  }
  if (!parameters.files.empty() && !parameters.config) {
    return InvalidArgument("repository.parameter",
                           "files are loaded with a 'config' beside them, which may be {}");
  }
  return parameters;
}

// For the log.
std::string WhoIs(const Caller& caller) {
  return caller.key.empty() ? "a caller" : absl::StrCat("the key ", InQuotes(caller.key));
}

}  // namespace

int64_t LoadCall::LargestFile() const {
  int64_t largest = 0;
  for (const Parameter& parameter : parameters) {
    if (parameter.bytes) {
      largest = std::max(largest, static_cast<int64_t>(parameter.bytes->size()));
    }
  }
  return largest;
}

absl::StatusOr<std::unique_ptr<ServerApi>> ServerApi::Create(const ServerApiOptions& options,
                                                             ModelCatalog& catalog,
                                                             const StatisticsSource& statistics,
                                                             RequestObserver* observer,
                                                             Clock& clock) {
  std::unique_ptr<ServerApi> api;
  FOVEA_RETURN_IF_ERROR(StartThreads(
      [&] { api.reset(new ServerApi(options, catalog, statistics, observer, clock)); }));
  catalog.OnReadinessChange(
      [health = api->health_](std::string_view name, std::string_view version,
                              Readiness readiness) { health->SetModel(name, version, readiness); });
  return api;
}

ServerApi::ServerApi(const ServerApiOptions& options, ModelCatalog& catalog,
                     const StatisticsSource& statistics, RequestObserver* observer, Clock& clock)
    : options_(options),
      catalog_(catalog),
      statistics_(statistics),
      observer_(observer),
      clock_(clock),
      memory_(options.request_bytes, clock),
      tracer_(options.tracer != nullptr
                  ? options.tracer
                  : std::make_shared<Tracer>(TracerOptions(), /*exporter=*/nullptr, clock)),
      log_settings_(options.log_format),
      extensions_(ExtensionsOf(options)),
      loads_(limits::kRepositoryCallThreads, limits::kMaxPendingLoads),
      unloads_(limits::kRepositoryCallThreads, limits::kMaxPendingLoads),
      listings_(1, limits::kMaxPendingIndexes) {}

ServerMetadata ServerApi::Metadata() const {
  return {.name = "fovea", .version = options_.server_version, .extensions = extensions_};
}

absl::StatusOr<bool> ServerApi::ModelReady(std::string_view name, std::string_view version) const {
  const absl::Status found = catalog_.Find(name, version).status();
  if (absl::IsInvalidArgument(found)) return found;
  return found.ok();
}

absl::StatusOr<std::vector<ModelStatistics>> ServerApi::Statistics(
    const std::string& name, const std::string& version) const {
  // The catalog knows which names no model can have; the counters know which have counted.
  if (!name.empty()) FOVEA_RETURN_IF_ERROR(ModelReady(name, version).status());
  // A label stands for a number, under which is counted.
  const auto found = catalog_.Find(name, version);
  auto statistics =
      statistics_.Statistics(name, version.empty() || !found.ok() ? version : (*found)->version);
  if (absl::IsNotFound(statistics.status()) && !found.ok()) return found.status();
  return statistics;
}

template <typename Answer>
std::function<Answer()> ServerApi::UnlessDraining(std::function<Answer()> work) {
  return [this, work = std::move(work)]() -> Answer {
    if (gate_.closed()) return ServerStopping();
    return work();
  };
}

void ServerApi::ListRepository(IndexCall call, WaitingCaller<RepositoryIndex> caller) {
  auto list = [this, call = std::move(call)]() -> RepositoryIndex {
    FOVEA_RETURN_IF_ERROR(CheckRepositoryName(call.repository_name));
    std::vector<IndexEntry> index = catalog_.Index();
    if (call.ready_only) {
      std::erase_if(index,
                    [](const IndexEntry& entry) { return entry.state != ModelState::kReady; });
    }
    return index;
  };
  listings_.Run(std::move(caller), UnlessDraining<RepositoryIndex>(std::move(list)));
}

void ServerApi::LoadModel(LoadCall call, WaitingCaller<absl::Status> caller) {
  // Shared: work is copied as it goes from thread to thread, and files are long.
  auto read_and_load = [this](LoadCall* call) -> absl::Status {
    FOVEA_RETURN_IF_ERROR(CheckRepositoryName(call->repository_name));
    const int64_t twice = call->LargestFile();
    FOVEA_ASSIGN_OR_RETURN(LoadParameters parameters, ReadParameters(*call));
    const std::string config = std::move(parameters.config).value_or("");
    if (parameters.files.empty()) return catalog_.Load(call->model_name, config);
    return catalog_.LoadFiles(call->model_name, config, std::move(parameters.files), [&] {
      if (call->memory != nullptr) call->memory->KeepOnly(call->memory->bytes() - twice);
    });
  };
  auto load = [read_and_load, call = std::make_shared<LoadCall>(std::move(call))]() {
    const absl::Status loaded = read_and_load(call.get());
    if (loaded.ok()) return loaded;
    // Triton's words, which its clients look for.
    return MakeError(loaded.code(), ReasonOf(loaded),
                     absl::StrCat("failed to load ", InQuotes(call->model_name), ": ",
                                  std::string(loaded.message())));
  };
  loads_.Run(std::move(caller), UnlessDraining<absl::Status>(std::move(load)));
}

void ServerApi::UnloadModel(UnloadCall call, WaitingCaller<absl::Status> caller) {
  auto unload = [this, call = std::move(call)]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(CheckRepositoryName(call.repository_name));
    return catalog_.Unload(call.model_name);
  };
  unloads_.Run(std::move(caller), UnlessDraining<absl::Status>(std::move(unload)));
}

absl::Status ServerApi::RegisterSharedMemory(SharedMemoryRegionInfo region) {
  if (options_.shared_memory != nullptr) return options_.shared_memory->Register(std::move(region));
  return Unimplemented("request.shared_memory", "shared memory is not supported by this server");
}

void ServerApi::UnregisterSharedMemory(const std::string& name) {
  if (options_.shared_memory != nullptr) options_.shared_memory->Unregister(name);
}

absl::StatusOr<std::vector<SharedMemoryRegionInfo>> ServerApi::SharedMemoryStatus(
    const std::string& name) const {
  if (options_.shared_memory != nullptr) return options_.shared_memory->Status(name);
  return std::vector<SharedMemoryRegionInfo>();
}

void ServerApi::Compare(CompareRequest request, CancellationPtr cancellation,
                        ProgressListener progress, ComparisonRunner::Done done) {
  if (options_.comparisons == nullptr) {
    done(Unimplemented(
        "compare.disabled",
        "this server runs no comparisons: --enable-experiments starts one that does"));
    return;
  }
  options_.comparisons->Compare(std::move(request), std::move(cancellation), std::move(progress),
                                std::move(done));
}

void ServerApi::Sweep(SweepRequest request, CancellationPtr cancellation, ProgressListener progress,
                      SweepRunner::Done done) {
  if (options_.sweeps == nullptr) {
    done(Unimplemented("sweep.disabled",
                       "this server runs no sweeps: --enable-experiments starts one that does"));
    return;
  }
  options_.sweeps->Sweep(std::move(request), std::move(cancellation), std::move(progress),
                         std::move(done));
}

void ServerApi::Explain(ExplainRequest request, CancellationPtr cancellation,
                        ExplanationRunner::Done done) {
  if (options_.explanations == nullptr) {
    done(Unimplemented("explain.disabled",
                       "this server explains nothing: --enable-experiments starts one that does"));
    return;
  }
  options_.explanations->Explain(std::move(request), std::move(cancellation), std::move(done));
}

void ServerApi::Serve(ServeRequest request, CancellationPtr cancellation, ProgressListener progress,
                      VariantServing::Served served, VariantServing::Done done) {
  if (options_.variants == nullptr) {
    done(
        Unimplemented("serve.disabled",
                      "this server serves no variants: --enable-experiments starts one that does"));
    return;
  }
  options_.variants->Serve(std::move(request), std::move(cancellation), std::move(progress),
                           std::move(served), std::move(done));
}

absl::StatusOr<LiveExperiments*> ServerApi::Experiments() {
  if (options_.experiments != nullptr) return options_.experiments;
  return Unimplemented(
      "experiment.disabled",
      "this server runs no experiments: --enable-experiments starts one that does");
}

absl::Status ServerApi::RegisterCudaSharedMemory() {
  return Unimplemented("request.shared_memory",
                       "CUDA's shared memory is not supported by this server");
}

absl::StatusOr<TraceControl::Values> ServerApi::ChangeTraceSettings(
    const std::string& model, const TraceControl::Values& changes, const Caller& caller) {
  if (!model.empty()) FOVEA_RETURN_IF_ERROR(catalog_.Find(model, "").status());
  TraceControl& settings = tracer_->settings();
  if (!changes.empty()) {
    FOVEA_RETURN_IF_ERROR(settings.Change(model, changes));
    LogAlways(LogLevel::kWarning,
              absl::StrCat("trace settings are changed by ", WhoIs(caller),
                           model.empty() ? "" : absl::StrCat(", of the model ", model)));
  }
  return settings.Current(model);
}

absl::StatusOr<LogControl::Values> ServerApi::ChangeLogSettings(const LogControl::Values& changes,
                                                                const Caller& caller) {
  FOVEA_RETURN_IF_ERROR(log_settings_.Change(changes, WhoIs(caller)));
  return log_settings_.Current();
}

int ServerApi::Drain(std::span<Transport* const> transports, Nanos timeout) {
  if (drained_.exchange(true)) return 0;
  SetServing(false);
  gate_.Close();
  for (Transport* const transport : transports) transport->DrainStreams();
  const Nanos until = clock_.Now() + timeout;
  const int cut_off = gate_.AwaitAnswers(clock_, until);
  // A caller that does not read its answer holds up the others' end for no longer than this.
  Nanos grace_ends =
      std::min(gate_.AnswerDeadline(until), clock_.Now() + limits::kUnreadAnswerSeconds * kSecond);
  if (cut_off > 0) {
    // They are told why they end, and so that they try elsewhere.
    gate_.GiveUp();
    grace_ends = clock_.Now() + limits::kGiveUpSeconds * kSecond;
  }
  if (const int unread = gate_.AwaitEmpty(clock_, grace_ends); unread > 0) {
    Log(LogLevel::kWarning, absl::StrCat(unread, " answers were not read in time"));
  }
  for (Transport* const transport : transports) transport->AwaitStreams(grace_ends);
  listings_.GiveUp(ServerStopping());
  health_->Close();
  for (Transport* const transport : transports) transport->StopListening();
  // Calls whose messages are still arriving would read a closed connection, and not why.
  if (timeout > 0) {
    gate_.AwaitQuiet(clock_, options_.quiet_ms * kMillisecond,
                     clock_.Now() + options_.max_quiet_wait_ms * kMillisecond);
  }
  for (Transport* const transport : transports) transport->Close();
  return cut_off;
}

}  // namespace fovea
