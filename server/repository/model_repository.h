// The models of one or several repository folders: which are loaded, which serve, and how one gives
// way to the next.
//
// A new version is built and warmed before the old one stops, requests that hold the old one finish
// on it, and a load that fails leaves everything as it was. docs/faults.md, rows 25 to 33.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model_zoo/folder/model_folders.h"
#include "model_zoo/folder/repository_fs.h"
#include "server/core/clock.h"
#include "server/core/memory_budget.h"
#include "server/core/model_catalog.h"
#include "server/core/mutex.h"
#include "server/repository/change_detector.h"
#include "server/repository/janitor.h"
#include "server/repository/load_queue.h"
#include "server/repository/model_record.h"
#include "server/repository/repository_observer.h"
#include "server/repository/servable.h"
#include "server/repository/serving_table.h"

namespace fovea {

enum class ModelControl {
  kNone,      // all models at the start, and no change after it
  kExplicit,  // load_models at the start, then what Load and Unload say
  kPoll,      // all models, and what changes on disk
};

struct ModelRepositoryOptions {
  ModelControl control = ModelControl::kNone;
  // kExplicit: loaded at the start; "*" stands for all.
  std::vector<std::string> load_models;
  // kPoll: between two looks at the disk. A change is acted upon at the second look that sees it,
  // or a later one: shorter is faster, and asks more of a network disk.
  Nanos poll_period = 15 * kSecond;
  // kPoll: for so long nothing of a model's folder has to change before it is loaded. Turn it up
  // where copies into the repository pause for longer.
  Nanos settle = 5 * kSecond;
  // Between two rounds in which the canaries of what serves are asked; 0: only before a version
  // serves. Shorter finds a broken version sooner, and costs a request of each that has one.
  Nanos canary_interval = 0;
  // Models that are loaded at the same time. More start sooner, and take cores and memory from what
  // serves.
  int loader_threads = 1;
  // Of weights, by the size of their files, that load at the same time; a larger model loads alone.
  // A load needs about twice its file: as it is read, and as the kernels want it.
  int64_t load_bytes = int64_t{4} << 30;
};

// Thread-safe.
class ModelRepository final : public ModelCatalog {
 public:
  // INVALID_ARGUMENT: no or senseless options; otherwise as RepositoryFs where a repository cannot
  // be listed; UNAVAILABLE server.no_thread. Loads nothing yet. `observer` and `clock` must outlive
  // it.
  static absl::StatusOr<std::unique_ptr<ModelRepository>> Create(
      ModelRepositoryOptions options, std::vector<std::unique_ptr<RepositoryFs>> repositories,
      ServableFactory factory, RepositoryObserver& observer, Clock& clock = SteadyClock());

  // Stops, and waits until the loads under way have given up, every handle is released and every
  // servable destroyed.
  ~ModelRepository() override;

  // Begins to load what the control mode says, on the loader threads, and returns; reads the
  // repositories' folders first, and takes as long as their disk. Called once. As RepositoryFs
  // where one cannot be listed; UNAVAILABLE server.no_thread.
  absl::Status Start();
  // Blocks until each of those models serves or has failed, until Stop, or until `until`, steady
  // time: false there.
  bool WaitUntilTried(Nanos until = kNever);
  // Blocks until none of them is missing any more, or until Stop. A model is missing until it has
  // loaded once, or until nobody wants it any longer: it left the disk (kPoll, Rescan) or was
  // unloaded.
  void WaitUntilComplete();
  struct Startup {
    int models = 0;                   // that Start was to load
    int serving = 0;                  // models that serve now, whoever asked for them
    std::vector<IndexEntry> missing;  // those that are, by name, with the reason
    // Forecast of the time until each serves or has failed, from the models so far. nullopt: none
    // has yet, or all have.
    std::optional<Nanos> left;
  };
  Startup startup() const;
  // How many models are in each of ModelRecord::Summary's states, those without any among them.
  std::map<std::string_view, int> ModelsByState() const;

  // Makes what serves agree with the disk as a poll does, at once and in the background. False, and
  // nothing happens, in kExplicit, where callers say what serves.
  bool Rescan();
  // Begins no further load, asks the running ones to give up, and ends the calls of Load and Unload
  // that wait for one. Returns at once: a load may hang on its disk. What serves serves on.
  void Stop();

  // The handle may be released on any thread.
  absl::StatusOr<std::shared_ptr<const ServingModel>> Acquire(
      std::string_view name, std::string_view version) const override;
  absl::StatusOr<std::shared_ptr<const ModelView>> Find(std::string_view name,
                                                        std::string_view version) const override;
  std::vector<IndexEntry> Index() const override;
  absl::Status Load(std::string_view name, std::string_view config_override) override;
  absl::Status LoadFiles(std::string_view name, std::string_view config_override,
                         std::vector<SentFile> files, absl::FunctionRef<void()> written) override;
  absl::Status Unload(std::string_view name) override;
  // `version` is never empty: a model is ready while one of its versions is.
  void OnReadinessChange(ReadinessListener listener) override;

 private:
  // What a job does with a model.
  struct SyncRequest {
    bool force = false;           // load even what has not changed
    bool unload_if_gone = false;  // a model that left the disk stops serving
    // Instead of the override of the last successful load.
    std::optional<std::string> config_override;
    // Where its weights lie; null: in its folder.
    std::shared_ptr<const RepositoryFs> sent = nullptr;
    // What a look at the disk saw. A folder that is another one by now is left to the next look.
    std::optional<std::string> settled;
  };

  ModelRepository(ModelRepositoryOptions options,
                  std::vector<std::unique_ptr<RepositoryFs>> repositories, ServableFactory factory,
                  RepositoryObserver& observer, Clock& clock);

  using Records = std::map<std::string, ModelRecord, std::less<>>;

  // What Load and LoadFiles do. `prepare`: once it is this call's turn, before anything is loaded.
  absl::Status LoadOnRequest(
      std::string_view name, SyncRequest request,
      absl::FunctionRef<absl::Status(SyncRequest& request)> prepare = [](SyncRequest&) {
        return absl::OkStatus();
      });
  // Adds a job that syncs the model; `known`: it is there, so that it is loading from now on.
  // `done` may be null.
  void Enqueue(const std::string& name, SyncRequest request, bool known,
               std::function<void(const absl::Status&)> done);
  // Makes what serves agree with the disk. Runs with the model to itself.
  absl::Status Sync(const std::string& name, const SyncRequest& request);
  absl::Status SyncVersions(const std::string& name, const ModelFolderContents& contents,
                            const std::string& config, const SyncRequest& request, Nanos asked);
  // `asked`: since when the model waits to be loaded, whichever of its versions.
  absl::Status LoadOne(const std::string& name, const ModelFolderContents& contents,
                       const VersionFolderContents& version, std::string fingerprint, bool sent,
                       Nanos asked);
  absl::Status FailedToRead(const std::string& name, const absl::Status& status, bool unload,
                            Nanos began);
  void SyncAll();
  // Loads models anew that share weights with others, where those changed.
  void RefreshSharers(const std::string& except);

  // Rebuilds the table, and tells the listeners what became ready or stopped being so.
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(notify_mutex_);
  // `known`: a call asked for it.
  absl::Status UnloadHere(const std::string& name, bool known);
  void RetireAll(const std::string& name, const std::string& reason);
  void OnGone(const std::string& name, int64_t version, VersionLoad& load);
  void ForgetIfGone(Records::iterator model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WhyMissing(std::string_view name, std::string_view version) const;
  std::shared_ptr<const ServingTable> Table() const;

  void Poll();
  void WatchCanaries();
  // What a version that served has answered its canary.
  void OnCanary(const std::string& name, int64_t version, VersionLoad& load,
                const absl::Status& status);

  // It can answer nothing any more; it may not be ready yet.
  void OnLost(const std::string& name, int64_t version, VersionLoad& load, const absl::Status& why);

  const ModelRepositoryOptions options_;
  const ServableFactory factory_;
  RepositoryObserver& observer_;
  Clock& clock_;
  const ModelFolders folders_;
  const CancellationPtr cancellation_ = std::make_shared<Cancellation>();

  // Held while listeners are called, so that they hear of changes in their order; always taken
  // before mutex_.
  Mutex notify_mutex_;
  std::vector<ReadinessListener> listeners_ ABSL_GUARDED_BY(notify_mutex_);

  mutable Mutex mutex_;
  mutable CondVar changed_;
  Records models_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const ServingTable> table_ ABSL_GUARDED_BY(mutex_);
  ChangeDetector detector_ ABSL_GUARDED_BY(mutex_);
  int startup_models_ ABSL_GUARDED_BY(mutex_) = 0;
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;  // models of Start that are not through
  Nanos start_began_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string, std::less<>> missing_ ABSL_GUARDED_BY(mutex_);  // of Start, see Startup
  // Models for which a call of Load, of Unload waits.
  std::set<std::string, std::less<>> load_calls_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> unload_calls_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  Janitor janitor_;
  MemoryBudget load_memory_;  // of options_.load_bytes
  LoadQueue queue_;
  std::thread poller_, canary_watch_;
};

}  // namespace fovea
