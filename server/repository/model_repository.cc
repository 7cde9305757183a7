#include "server/repository/model_repository.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/limits.h"
#include "base/status.h"
#include "model_zoo/folder/names.h"
#include "model_zoo/folder/sent_files.h"
#include "server/core/server_stopping.h"
#include "server/core/start_threads.h"

namespace fovea {
namespace {

absl::Status CheckOptions(const ModelRepositoryOptions& options) {
  if (options.poll_period <= 0 || options.settle < 0 || options.canary_interval < 0) {
    return InvalidArgument("repository.options",
                           "the poll period must be above zero, and the time to settle and the "
                           "interval of canaries not below it");
  }
  if (options.loader_threads < 1 || options.loader_threads > limits::kMaxLoaderThreads) {
    return InvalidArgument(
        "repository.options",
        "there can be 1 to " + std::to_string(limits::kMaxLoaderThreads) + " loader threads");
  }
  if (!options.load_models.empty() && options.control != ModelControl::kExplicit) {
    return InvalidArgument("repository.options",
                           "models to load are named in control mode explicit only");
  }
  for (const std::string& name : options.load_models) {
    if (name != "*") FOVEA_RETURN_IF_ERROR(CheckModelName(name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelRepository>> ModelRepository::Create(
    ModelRepositoryOptions options, std::vector<std::unique_ptr<RepositoryFs>> repositories,
    ServableFactory factory, RepositoryObserver& observer, Clock& clock) {
  FOVEA_RETURN_IF_ERROR(CheckOptions(options));
  if (repositories.empty()) {
    return InvalidArgument("repository.options", "there is no model repository");
  }
  for (const auto& fs : repositories) FOVEA_RETURN_IF_ERROR(CheckRepository(*fs));
  std::unique_ptr<ModelRepository> repository;
  FOVEA_RETURN_IF_ERROR(StartThreads([&] {
    repository.reset(new ModelRepository(std::move(options), std::move(repositories),
                                         std::move(factory), observer, clock));
  }));
  return repository;
}

ModelRepository::ModelRepository(ModelRepositoryOptions options,
                                 std::vector<std::unique_ptr<RepositoryFs>> repositories,
                                 ServableFactory factory, RepositoryObserver& observer,
                                 Clock& clock)
    : options_(std::move(options)),
      factory_(std::move(factory)),
      observer_(observer),
      clock_(clock),
      folders_(std::move(repositories)),
      table_(std::make_shared<ServingTable>()),
      detector_(options_.settle),
      load_memory_(options_.load_bytes, clock),
      queue_(options_.loader_threads) {}

ModelRepository::~ModelRepository() {
  Stop();
  if (poller_.joinable()) poller_.join();
  if (canary_watch_.joinable()) canary_watch_.join();
  queue_.Join();
  std::vector<std::string> names;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, record] : models_) names.push_back(name);
  }
  for (const std::string& name : names) RetireAll(name, "the server is stopping");
  MutexLock lock(mutex_);
  while (std::any_of(models_.begin(), models_.end(),
                     [](const auto& model) { return !model.second.Idle(); })) {
    changed_.Wait(mutex_);
  }
}

absl::Status ModelRepository::Start() {
  std::vector<std::string> names = options_.load_models;
  const bool all = options_.control != ModelControl::kExplicit ||
                   std::find(names.begin(), names.end(), "*") != names.end();
  const ModelFolders::Listing listing = folders_.List();
  FOVEA_RETURN_IF_ERROR(listing.problem);
  for (const std::string& folder : listing.ignored) observer_.OnIgnoredFolder(folder);
  std::erase(names, "*");
  if (all) names.insert(names.end(), listing.names.begin(), listing.names.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  {
    MutexLock lock(mutex_);
    startup_models_ = starting_ = static_cast<int>(names.size());
    start_began_ = clock_.Now();
    missing_.insert(names.begin(), names.end());
  }
  for (const std::string& name : names) {
    Enqueue(name, {}, /*known=*/true, [this](const absl::Status&) {
      MutexLock lock(mutex_);
      --starting_;
      changed_.NotifyAll();
    });
  }
  return StartThreads([&] {
    if (options_.control == ModelControl::kPoll) poller_ = std::thread([this] { Poll(); });
    if (options_.canary_interval > 0) {
      canary_watch_ = std::thread([this] { WatchCanaries(); });
    }
  });
}

bool ModelRepository::WaitUntilTried(Nanos until) {
  MutexLock lock(mutex_);
  while (starting_ > 0 && !stopping_) {
    if (until != kNever && clock_.Now() >= until) return false;
    clock_.WaitUntil(changed_, mutex_, until);
  }
  return true;
}

void ModelRepository::WaitUntilComplete() {
  MutexLock lock(mutex_);
  while (!missing_.empty() && !stopping_) changed_.Wait(mutex_);
}

ModelRepository::Startup ModelRepository::startup() const {
  MutexLock lock(mutex_);
  Startup startup{.models = startup_models_, .serving = static_cast<int>(table_->models().size())};
  for (const std::string& name : missing_) {
    IndexEntry& row = startup.missing.emplace_back(IndexEntry{.name = name});
    if (const auto found = models_.find(name); found != models_.end()) {
      row.reason = found->second.WhyNotReady(0);
      if (found->second.LoadingForTheFirstTime(0)) row.state = ModelState::kLoading;
    }
  }
  if (const int tried = startup_models_ - starting_; tried > 0 && starting_ > 0) {
    startup.left = (clock_.Now() - start_began_) / tried * starting_;
  }
  return startup;
}

std::map<std::string_view, int> ModelRepository::ModelsByState() const {
  std::map<std::string_view, int> counts = {
      {"ready", 0}, {"loading", 0}, {"out_of_service", 0}, {"failed", 0}, {"unloaded", 0}};
  MutexLock lock(mutex_);
  for (const auto& [name, record] : models_) ++counts.at(record.Summary());
  return counts;
}

bool ModelRepository::Rescan() {
  if (options_.control == ModelControl::kExplicit) return false;
  // On a loader thread: the disk may hang.
  queue_.Add("", [this](const absl::Status& turn) {
    if (turn.ok()) SyncAll();
  });
  return true;
}

void ModelRepository::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  cancellation_->Cancel();
  load_memory_.EndWaits();
  queue_.Close();
}

std::shared_ptr<const ServingTable> ModelRepository::Table() const {
  MutexLock lock(mutex_);
  return table_;
}

absl::StatusOr<std::shared_ptr<const ServingModel>> ModelRepository::Acquire(
    std::string_view name, std::string_view version) const {
  const std::shared_ptr<const ServingTable> table = Table();
  if (const ServingTable::Entry* const entry = table->Find(name, version)) return entry->servable;
  return WhyMissing(name, version);
}

absl::StatusOr<std::shared_ptr<const ModelView>> ModelRepository::Find(
    std::string_view name, std::string_view version) const {
  const std::shared_ptr<const ServingTable> table = Table();
  if (const ServingTable::Entry* const entry = table->Find(name, version)) return entry->view;
  return WhyMissing(name, version);
}

absl::Status ModelRepository::WhyMissing(std::string_view name, std::string_view version) const {
  FOVEA_RETURN_IF_ERROR(CheckModelName(name));
  FOVEA_RETURN_IF_ERROR(CheckVersion(version));
  MutexLock lock(mutex_);
  const auto found = models_.find(name);
  const int64_t number = found == models_.end() ? 0 : found->second.NumberOf(version);
  if (found != models_.end() && found->second.LoadingForTheFirstTime(number)) {
    return Unavailable("model.loading", "model " + std::string(name) + " is being loaded");
  }
  if (found != models_.end() && found->second.OutOfService(number)) {
    return Unavailable(
        "model.out_of_service",
        "model " + std::string(name) + " is out of service: " + found->second.WhyNotReady(number));
  }
  // Triton's words, which its clients look for.
  const std::string model = "Request for unknown model: '" + std::string(name) + "'";
  if (!version.empty() && found != models_.end() && found->second.ServesAny()) {
    std::string message = model + " serves no version " + std::string(version);
    if (number != 0 && !ParseVersion(version)) {
      message = model + ": the label " + std::string(version) + " stands for version " +
                std::to_string(number) + ", which does not serve";
      const std::string why = found->second.WhyNotReady(number);
      if (!why.empty()) message += ": " + why;
    }
    return NotFound("model.version_not_found", message);
  }
  std::string message = model + " is not loaded";
  if (found != models_.end()) {
    const std::string why = found->second.WhyNotReady(number);
    if (!why.empty()) message += ": " + why;
  }
  return NotFound("model.not_found", message);
}

std::vector<IndexEntry> ModelRepository::Index() const {
  const ModelFolders::Listing listing = folders_.List();
  MutexLock lock(mutex_);
  std::map<std::string, std::vector<IndexEntry>> rows;
  for (const std::string& name : listing.names) rows[name] = {{.name = name}};
  for (const auto& [name, record] : models_) rows[name] = record.Rows(name);
  std::vector<IndexEntry> index;
  for (auto& [name, entries] : rows) {
    index.insert(index.end(), entries.begin(), entries.end());
  }
  return index;
}

void ModelRepository::OnReadinessChange(ReadinessListener listener) {
  MutexLock notify(notify_mutex_);
  const std::shared_ptr<const ServingTable> table = Table();
  for (const auto& [name, versions] : table->models()) {
    for (const auto& [version, entry] : versions) {
      listener(name, std::to_string(version), Readiness::kReady);
    }
  }
  listeners_.push_back(std::move(listener));
}

absl::Status ModelRepository::Load(std::string_view name, std::string_view config_override) {
  return LoadOnRequest(name, {.force = true, .config_override = std::string(config_override)});
}

absl::Status ModelRepository::LoadFiles(std::string_view name, std::string_view config_override,
                                        std::vector<SentFile> files,
                                        absl::FunctionRef<void()> written) {
  return LoadOnRequest(name, {.force = true, .config_override = std::string(config_override)},
                       [&](SyncRequest& request) -> absl::Status {
                         FOVEA_ASSIGN_OR_RETURN(request.sent,
                                                MakeSentFiles(name, std::move(files)));
                         written();
                         return absl::OkStatus();
                       });
}

absl::Status ModelRepository::LoadOnRequest(
    std::string_view name, SyncRequest request,
    absl::FunctionRef<absl::Status(SyncRequest& request)> prepare) {
  FOVEA_RETURN_IF_ERROR(CheckModelName(name));
  if (options_.control != ModelControl::kExplicit) {
    return FailedPrecondition("repository.control_mode",
                              "models are loaded on request in control mode explicit only");
  }
  {
    MutexLock lock(mutex_);
    if (load_calls_.size() >= limits::kMaxPendingLoads) {
      return Unavailable("repository.busy", "too many loads are waiting");
    }
    // One call a model: those who try again while the disk hangs would take every thread for calls.
    if (!load_calls_.emplace(name).second) {
      return Unavailable("repository.busy", "the model is already being loaded on request");
    }
  }
  const absl::Cleanup ended = [&] {
    MutexLock lock(mutex_);
    load_calls_.erase(load_calls_.find(name));
  };
  FOVEA_RETURN_IF_ERROR(prepare(request));
  // Shared: a load that hangs outlives the call that asked for it, which a stop ends.
  const auto outcome = std::make_shared<std::optional<absl::Status>>();  // guarded by mutex_
  Enqueue(std::string(name), std::move(request), /*known=*/false,
          [this, outcome](const absl::Status& status) {
            MutexLock lock(mutex_);
            *outcome = status;
            changed_.NotifyAll();
          });
  absl::Status status;
  {
    MutexLock lock(mutex_);
    while (!outcome->has_value() && !stopping_) changed_.Wait(mutex_);
    status = outcome->value_or(ServerStopping());
  }
  if (status.ok()) RefreshSharers(std::string(name));
  return status;
}

absl::Status ModelRepository::Unload(std::string_view name) {
  FOVEA_RETURN_IF_ERROR(CheckModelName(name));
  if (options_.control != ModelControl::kExplicit) {
    return FailedPrecondition("repository.control_mode",
                              "models are unloaded on request in control mode explicit only");
  }
  bool loading = false;
  {
    MutexLock lock(mutex_);
    if (!unload_calls_.emplace(name).second) {
      return Unavailable("repository.busy", "the model is already being unloaded");
    }
    loading = load_calls_.contains(name);
    if (const auto missing = missing_.find(name); missing != missing_.end()) {
      missing_.erase(missing);
      changed_.NotifyAll();
    }
  }
  const absl::Cleanup ended = [&] {
    MutexLock lock(mutex_);
    unload_calls_.erase(unload_calls_.find(name));
  };
  return UnloadHere(std::string(name), loading);
}

absl::Status ModelRepository::UnloadHere(const std::string& name, bool known) {
  // Here, not on a loader thread: those may be busy for long with other models.
  const bool ran = queue_.RunHere(
      name, Unavailable("repository.unloaded", "the model was unloaded before its turn to load"),
      [&] {
        {
          MutexLock lock(mutex_);
          known |= models_.contains(name);
        }
        RetireAll(name, "unloaded");
      });
  if (!ran) return ServerStopping();
  if (!known) return NotFound("model.not_found", "model " + name + " is not loaded");
  MutexLock lock(mutex_);
  while (!stopping_) {
    const auto found = models_.find(name);
    if (found == models_.end() || !found->second.Unloading()) return absl::OkStatus();
    changed_.Wait(mutex_);
  }
  return ServerStopping();
}

void ModelRepository::Poll() {
  Nanos next = clock_.Now() + options_.poll_period;
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && clock_.Now() < next) clock_.WaitUntil(changed_, mutex_, next);
      if (stopping_) return;
    }
    const ModelFolders::Listing listing = folders_.List();
    if (!listing.problem.ok()) observer_.OnUnreadableRepository(listing.problem);
    ChangeDetector::Scan scan{.when = clock_.Now(), .complete = listing.problem.ok()};
    for (const std::string& name : listing.names) {
      scan.fingerprints[name] = folders_.Read(name).fingerprint;
    }
    std::vector<ChangeDetector::Change> changed;
    {
      MutexLock lock(mutex_);
      changed = detector_.Next(scan);
    }
    for (const auto& [name, fingerprint] : changed) {
      Enqueue(name, {.unload_if_gone = true, .settled = fingerprint}, /*known=*/true, nullptr);
    }
    next = clock_.Now() + options_.poll_period;
  }
}

}  // namespace fovea
