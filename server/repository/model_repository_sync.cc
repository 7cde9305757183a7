// The half of ModelRepository that changes what serves: jobs that make it agree with the disk.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/server_stopping.h"
#include "server/repository/canary.h"
#include "server/repository/load_version.h"
#include "server/repository/model_repository.h"

namespace fovea {
namespace {

std::string Text(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

bool Contains(const std::vector<int64_t>& sorted, int64_t number) {
  return std::binary_search(sorted.begin(), sorted.end(), number);
}

}  // namespace

void ModelRepository::Enqueue(const std::string& name, SyncRequest request, bool known,
                              std::function<void(const absl::Status&)> done) {
  {
    MutexLock lock(mutex_);
    // A name that nobody has seen on disk gets no record: anybody can ask for any name.
    known = known || models_.find(name) != models_.end();
    if (known) ++models_[name].pending;
  }
  absl::Cleanup not_added = [&] {
    MutexLock lock(mutex_);
    if (known) --models_.find(name)->second.pending;
  };
  queue_.Add(name, [this, name, request = std::move(request), known,
                    done = std::move(done)](const absl::Status& turn) {
    const absl::Status status = turn.ok() ? Sync(name, request) : turn;
    {
      MutexLock lock(mutex_);
      const auto found = models_.find(name);
      if (known) --found->second.pending;
      if (known && !turn.ok() && !stopping_) found->second.problem = Text(turn);
      if (found != models_.end()) ForgetIfGone(found);
      changed_.NotifyAll();
    }
    if (done) done(status);
  });
  std::move(not_added).Cancel();
}

absl::Status ModelRepository::Sync(const std::string& name, const SyncRequest& request) {
  const Nanos began = clock_.Now();
  std::string config;
  {
    MutexLock lock(mutex_);
    const auto found = models_.find(name);
    if (found != models_.end()) config = found->second.config_override;
  }
  if (request.config_override) config = *request.config_override;

  const ModelFolderContents contents = folders_.Read(name, config, request.sent.get());
  absl::Status status = contents.status;
  const bool missing = absl::IsNotFound(status);
  if (request.settled && *request.settled != (missing ? "" : contents.fingerprint)) {
    MutexLock lock(mutex_);
    detector_.Done(name, "");
    return Unavailable("repository.changed", "the model's folder is being changed");
  }
  if (status.ok()) status = ServedVersions(contents).status();
  const bool gone = status.code() == absl::StatusCode::kNotFound;
  status = status.ok() ? SyncVersions(name, contents, config, request, began)
                       : FailedToRead(name, status, gone && request.unload_if_gone, began);
  MutexLock lock(mutex_);
  if (options_.control == ModelControl::kPoll) {
    // What is gone or unavailable is worth another try without a change on disk.
    const bool again = gone || absl::IsUnavailable(status);
    detector_.Done(name, again ? "" : contents.fingerprint);
  }
  if (status.ok() && !gone) models_[name].config_override = config;
  if (status.ok() && missing_.erase(name) > 0) changed_.NotifyAll();
  return status;
}

absl::Status ModelRepository::FailedToRead(const std::string& name, const absl::Status& status,
                                           bool unload, Nanos began) {
  if (unload) {
    {
      MutexLock lock(mutex_);
      models_[name].gone = true;
    }
    RetireAll(name, "");
    return absl::OkStatus();
  }
  bool serving = false;
  {
    MutexLock lock(mutex_);
    const auto found = models_.find(name);
    if (found != models_.end()) {
      serving = found->second.ServesAny();
      // (A bad override is its caller's affair, not the model's.)
      if (!absl::IsInvalidArgument(status)) found->second.problem = Text(status);
    } else if (!absl::IsInvalidArgument(status) && !absl::IsNotFound(status)) {
      // While the disk cannot be read, callers may make up any number of names.
      const bool made_up = options_.control == ModelControl::kExplicit &&
                           absl::IsUnavailable(status) && !missing_.contains(name);
      if (!made_up) models_[name].problem = Text(status);
    }
  }
  observer_.OnLoad(
      {.model = name, .status = status, .duration = clock_.Now() - began, .serving = serving});
  return status;
}

absl::Status ModelRepository::SyncVersions(const std::string& name,
                                           const ModelFolderContents& contents,
                                           const std::string& config, const SyncRequest& request,
                                           Nanos asked) {
  FOVEA_ASSIGN_OR_RETURN(const std::vector<int64_t> desired, ServedVersions(contents));
  {
    MutexLock lock(mutex_);
    ModelRecord& record = models_[name];
    record.gone = false;
    record.problem.clear();
    record.shares_weights = request.sent == nullptr && !contents.spec.weights_of.empty();
    record.ForgetAllBut(desired);
  }
  absl::Status first_error;
  for (const VersionFolderContents& version : contents.versions) {
    if (!Contains(desired, version.number)) continue;
    std::string fingerprint = version.fingerprint + config;
    {
      MutexLock lock(mutex_);
      if (stopping_) return ServerStopping();
      const VersionLoad* const ready = models_[name].Ready(version.number);
      if (!request.force && ready != nullptr && !ready->lost &&
          ready->fingerprint() == fingerprint) {
        continue;
      }
    }
    const absl::Status status =
        LoadOne(name, contents, version, std::move(fingerprint), request.sent != nullptr, asked);
    if (first_error.ok()) first_error = status;
  }
  const auto& labels = contents.spec.version_labels;
  MutexLock notify(notify_mutex_);
  {
    MutexLock lock(mutex_);
    ModelRecord& record = models_[name];
    record.MoveLabels(labels);
    // An old version, and an old label, stops only once all that replaces it is ready.
    if (first_error.ok()) {
      std::erase_if(record.labels, [&](const auto& old) { return !labels.contains(old.first); });
    }
    for (const int64_t number : record.ReadyVersions()) {
      if (first_error.ok() && !Contains(desired, number)) record.Retire(number, "");
    }
  }
  Publish();
  return first_error;
}

absl::Status ModelRepository::LoadOne(const std::string& name, const ModelFolderContents& contents,
                                      const VersionFolderContents& version, std::string fingerprint,
                                      bool sent, Nanos asked) {
  const Nanos began = clock_.Now();
  std::shared_ptr<VersionLoad> load;
  {
    MutexLock lock(mutex_);
    load = models_[name].Begin(version.number, std::move(fingerprint));
    load->sent = sent;
  }
  absl::StatusOr<std::shared_ptr<Servable>> built;
  {
    // More than there is at all waits for all of it: a large model loads alone.
    const int64_t bytes = version.weights ? version.weights->identity.size : 0;
    // As long as loads end its turn comes, however many are before it. Behind one that hangs it
    // does not.
    const auto until = [&] {
      return std::max(asked, load_memory_.last_given()) + limits::kMaxLoadWaitSeconds * kSecond;
    };
    std::optional<MemoryBudget::Hold> hold;
    do {
      hold = load_memory_.AwaitHold(std::min(bytes, load_memory_.capacity()), until(),
                                    {.order = asked});
    } while (!hold && !cancellation_->Cancelled() && clock_.Now() < until());
    if (cancellation_->Cancelled()) {
      built = ServerStopping();
    } else if (!hold) {
      built = Unavailable("repository.busy",
                          "no load has given back memory for loading for ten minutes");
    } else {
      built = OrOutOfMemory([&] {
        return LoadVersion(
            contents, version, sent, factory_, cancellation_,
            [this, name, number = version.number,
             weak = std::weak_ptr(load)](const absl::Status& why) {
              if (const auto lost = weak.lock()) OnLost(name, number, *lost, why);
            },
            [this, weak = std::weak_ptr(load)](std::string doing) {
              const auto loading = weak.lock();
              MutexLock lock(mutex_);
              if (loading != nullptr) loading->progress = std::move(doing);
            },
            queue_.together());
      });
    }
  }
  std::shared_ptr<Servable> handle;  // held until the record knows what becomes of it
  if (built.ok()) {
    handle = janitor_.Adopt(*std::move(built), [this, name, number = version.number, load] {
      OnGone(name, number, *load);
    });
    built = handle;
    if (version.canary) {
      absl::StatusOr<Canary> canary = ReadCanaryOf(contents, version);
      const absl::Status answer =
          canary.ok() ? AskCanary(*built, *canary, clock_, *cancellation_) : canary.status();
      if (!answer.ok()) built = answer;
      MutexLock lock(mutex_);
      if (answer.ok()) load->canary = *std::move(canary);
    }
  }
  bool serving;
  {
    MutexLock notify(notify_mutex_);
    {
      MutexLock lock(mutex_);
      ModelRecord& record = models_[name];
      if (built.ok() && load->lost) {
        built = Unavailable("model.out_of_service", load->out_of_service);
      }
      if (built.ok()) {
        record.Succeed(version.number, *load, *std::move(built));
      } else {
        record.Fail(version.number, *load, Text(built.status()));
      }
      serving = record.ServesAny();
    }
    Publish();
  }
  observer_.OnLoad({.model = name,
                    .version = version.number,
                    .status = built.status(),
                    .duration = clock_.Now() - began,
                    .serving = serving});
  return built.status();
}

void ModelRepository::SyncAll() {
  const ModelFolders::Listing listing = folders_.List();
  if (!listing.problem.ok()) observer_.OnUnreadableRepository(listing.problem);
  std::set<std::string> names(listing.names.begin(), listing.names.end());
  if (listing.problem.ok()) {
    MutexLock lock(mutex_);
    for (const auto& [name, record] : models_) names.insert(name);
  }
  for (const std::string& name : names) {
    Enqueue(name, {.unload_if_gone = true}, /*known=*/true, nullptr);
  }
}

void ModelRepository::RefreshSharers(const std::string& except) {
  std::vector<std::string> sharers;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, record] : models_) {
      const bool loaded = !record.ReadyVersions().empty();
      if (record.shares_weights && loaded && name != except) sharers.push_back(name);
    }
  }
  for (const std::string& name : sharers) Enqueue(name, {}, /*known=*/true, nullptr);
}

void ModelRepository::Publish() {
  auto fresh = std::make_shared<ServingTable>();
  std::shared_ptr<const ServingTable> old;
  std::set<std::pair<std::string, int64_t>> out_of_service;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, record] : models_) {
      std::map<int64_t, std::shared_ptr<Servable>> ready;
      for (const auto& [version, load] : record.ReadyLoads()) {
        if (load->out_of_service.empty()) {
          ready[version] = load->servable;
        } else {
          out_of_service.emplace(name, version);
        }
      }
      if (!ready.empty()) fresh->Add(name, std::move(ready), record.labels);
    }
    old = std::exchange(table_, fresh);
    changed_.NotifyAll();
  }
  const auto tell = [&](const ServingTable& now, const ServingTable& other, bool ready)
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(notify_mutex_) {
                          for (const auto& [name, versions] : now.models()) {
                            for (const auto& [number, entry] : versions) {
                              const std::string version = std::to_string(number);
                              if (other.Find(name, version) != nullptr) continue;
                              const Readiness readiness = ready ? Readiness::kReady
                                                          : out_of_service.contains({name, number})
                                                              ? Readiness::kOutOfService
                                                              : Readiness::kGone;
                              for (const ReadinessListener& listener : listeners_)
                                listener(name, version, readiness);
                            }
                          }
                        };
  tell(*fresh, *old, /*ready=*/true);
  tell(*old, *fresh, /*ready=*/false);
}

void ModelRepository::RetireAll(const std::string& name, const std::string& reason) {
  MutexLock notify(notify_mutex_);
  {
    MutexLock lock(mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) return;
    for (const int64_t version : found->second.ReadyVersions()) {
      found->second.Retire(version, reason);
    }
  }
  Publish();
}

void ModelRepository::OnGone(const std::string& name, int64_t version, VersionLoad& load) {
  {
    MutexLock lock(mutex_);
    // It never served: its canary failed.
    if (load.state() == ModelState::kUnavailable) return;
    const auto found = models_.find(name);
    FOVEA_CHECK(found != models_.end());
    found->second.Gone(version, load);
    ForgetIfGone(found);
    changed_.NotifyAll();
  }
  observer_.OnUnloaded(name, version);
}

void ModelRepository::ForgetIfGone(Records::iterator model) {
  if (model->second.gone && model->second.Idle()) models_.erase(model);
}

}  // namespace fovea
