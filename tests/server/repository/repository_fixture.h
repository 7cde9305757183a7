// A repository on a folder of the test's own, with fake models and a fake clock.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/core/mutex.h"
#include "server/core/testing/fake_clock.h"
#include "server/repository/model_repository.h"
#include "tests/model_zoo/folder/temp_repository.h"
#include "tests/server/repository/fake_models.h"
#include "tests/server/repository/faulty_fs.h"

namespace fovea {

// Thread-safe.
class RecordingObserver final : public RepositoryObserver {
 public:
  struct Load {
    std::string model;
    int64_t version;
    absl::Status status;
    bool serving;
  };

  void OnLoad(const LoadReport& report) override {
    MutexLock lock(mutex_);
    loads_.push_back({std::string(report.model), report.version, report.status, report.serving});
    changed_.NotifyAll();
  }
  void OnCanary(const CanaryReport& report) override {
    MutexLock lock(mutex_);
    canaries_.push_back({std::string(report.model), report.version, report.status, false});
    changed_.NotifyAll();
  }
  void OnLost(std::string_view model, int64_t version, const absl::Status& why) override {
    MutexLock lock(mutex_);
    lost_.push_back({std::string(model), version, why, false});
  }
  void OnUnloaded(std::string_view, int64_t) override {
    MutexLock lock(mutex_);
    ++unloads_;
    changed_.NotifyAll();
  }
  void OnUnreadableRepository(const absl::Status&) override {
    MutexLock lock(mutex_);
    ++unreadable_;
  }
  void OnIgnoredFolder(std::string_view name) override {
    MutexLock lock(mutex_);
    ignored_.emplace_back(name);
  }

  std::vector<Load> Loads() {
    MutexLock lock(mutex_);
    return loads_;
  }
  std::vector<std::string> Ignored() {
    MutexLock lock(mutex_);
    return ignored_;
  }
  std::vector<Load> Lost() {
    MutexLock lock(mutex_);
    return lost_;
  }
  int Unreadable() {
    MutexLock lock(mutex_);
    return unreadable_;
  }
  void AwaitLoads(size_t count) {
    MutexLock lock(mutex_);
    while (loads_.size() < count) changed_.Wait(mutex_);
  }
  // Returns the last of so many.
  Load AwaitCanaries(size_t count) {
    MutexLock lock(mutex_);
    while (canaries_.size() < count) changed_.Wait(mutex_);
    return canaries_.back();
  }
  void AwaitUnloads(int count) {
    MutexLock lock(mutex_);
    while (unloads_ < count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Load> loads_ ABSL_GUARDED_BY(mutex_);
  std::vector<Load> canaries_ ABSL_GUARDED_BY(mutex_);
  std::vector<Load> lost_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> ignored_ ABSL_GUARDED_BY(mutex_);
  int unloads_ ABSL_GUARDED_BY(mutex_) = 0;
  int unreadable_ ABSL_GUARDED_BY(mutex_) = 0;
};

class RepositoryFixture : public ::testing::Test {
 protected:
  // Makes the repository, and starts it unless told otherwise.
  void Open(ModelRepositoryOptions options, bool start = true) {
    std::vector<std::unique_ptr<RepositoryFs>> files;
    files.push_back(std::make_unique<FaultyFs>(MakeRepositoryFs(disk_.root()), faults_));
    auto created = ModelRepository::Create(std::move(options), std::move(files), models_.Factory(),
                                           observer_, clock_);
    ASSERT_TRUE(created.ok()) << created.status();
    repository_ = *std::move(created);
    if (!start) return;
    EXPECT_TRUE(repository_->Start().ok());
    repository_->WaitUntilTried();
  }
  void OpenExplicit(std::vector<std::string> load = {"*"}) {
    Open({.control = ModelControl::kExplicit, .load_models = std::move(load)});
  }

  // A call of Load that may wait.
  std::future<absl::Status> LoadInBackground(std::string name) {
    return std::async(std::launch::async,
                      [this, name = std::move(name)] { return repository_->Load(name, ""); });
  }

  // The servable behind a name; null where there is none.
  std::shared_ptr<const FakeServable> Acquire(std::string_view name,
                                              std::string_view version = "") {
    auto handle = repository_->Acquire(name, version);
    return handle.ok() ? std::static_pointer_cast<const FakeServable>(*std::move(handle)) : nullptr;
  }
  absl::StatusCode CodeOf(std::string_view name, std::string_view version = "") {
    return repository_->Acquire(name, version).status().code();
  }
  // "name/version state reason" of every row.
  std::vector<std::string> Index() {
    static constexpr const char* kStates[] = {"loading", "ready", "unloading", "unavailable"};
    std::vector<std::string> rows;
    for (const IndexEntry& entry : repository_->Index()) {
      std::string row =
          entry.name + "/" + entry.version + " " + kStates[static_cast<int>(entry.state)];
      if (!entry.reason.empty()) row += " " + entry.reason;
      rows.push_back(row);
    }
    return rows;
  }

  TempRepository disk_;
  std::shared_ptr<DiskFaults> faults_ = std::make_shared<DiskFaults>();
  FakeClock clock_;
  FakeModels models_;
  RecordingObserver observer_;
  std::unique_ptr<ModelRepository> repository_;
};

}  // namespace fovea
