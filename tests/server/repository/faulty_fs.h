// The real files of a repository, on a disk that a test can break.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model_zoo/folder/repository_fs.h"
#include "server/core/mutex.h"

namespace fovea {

// What fails from now on. Shared by a test and the file system it handed over.
struct DiskFaults {
  std::atomic<bool> listing = false;
  std::atomic<bool> opening = false;
  std::atomic<bool> reading = false;

  // Calls of the disk do not return until Release.
  void Hang() {
    MutexLock lock(mutex_);
    hanging_ = true;
  }
  void Release() {
    MutexLock lock(mutex_);
    hanging_ = false;
    changed_.NotifyAll();
  }
  // Returns once a call hangs.
  void AwaitHanging() {
    MutexLock lock(mutex_);
    while (hung_ == 0) changed_.Wait(mutex_);
  }
  // What every call of the disk passes.
  void Pass() {
    MutexLock lock(mutex_);
    ++hung_;
    changed_.NotifyAll();
    while (hanging_) changed_.Wait(mutex_);
    --hung_;
  }

  void CountRead(const std::string& path, size_t bytes) {
    MutexLock lock(mutex_);
    read_[path] += static_cast<int64_t>(bytes);
  }
  // Of a file, so far.
  int64_t BytesRead(const std::string& path) {
    MutexLock lock(mutex_);
    return read_[path];
  }

  static absl::Status Error() { return Unavailable("repository.io", "the disk failed"); }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool hanging_ ABSL_GUARDED_BY(mutex_) = false;
  int hung_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int64_t> read_ ABSL_GUARDED_BY(mutex_);
};

class FaultyFs final : public RepositoryFs {
 public:
  FaultyFs(std::unique_ptr<RepositoryFs> real, std::shared_ptr<DiskFaults> faults)
      : real_(std::move(real)), faults_(std::move(faults)) {}

  std::string where() const override { return real_->where(); }

  absl::StatusOr<std::vector<FolderEntry>> List(std::string_view folder) const override {
    faults_->Pass();
    if (faults_->listing) return DiskFaults::Error();
    return real_->List(folder);
  }

  absl::StatusOr<std::unique_ptr<RepositoryFile>> Open(std::string_view path) const override {
    faults_->Pass();
    if (faults_->opening) return DiskFaults::Error();
    FOVEA_ASSIGN_OR_RETURN(std::unique_ptr<RepositoryFile> file, real_->Open(path));
    return std::make_unique<File>(std::string(path), std::move(file), faults_);
  }

 private:
  class File final : public RepositoryFile {
   public:
    File(std::string name, std::unique_ptr<RepositoryFile> real, std::shared_ptr<DiskFaults> faults)
        : name_(std::move(name)), real_(std::move(real)), faults_(std::move(faults)) {}

    absl::StatusOr<FileIdentity> Identity() const override { return real_->Identity(); }
    absl::StatusOr<std::string> Read(int64_t offset, size_t count) const override {
      faults_->Pass();
      if (faults_->reading) return DiskFaults::Error();
      absl::StatusOr<std::string> bytes = real_->Read(offset, count);
      if (bytes.ok()) faults_->CountRead(name_, bytes->size());
      return bytes;
    }
    std::filesystem::path path() const override { return real_->path(); }

   private:
    const std::string name_;
    std::unique_ptr<RepositoryFile> real_;
    std::shared_ptr<DiskFaults> faults_;
  };

  std::unique_ptr<RepositoryFs> real_;
  std::shared_ptr<DiskFaults> faults_;
};

}  // namespace fovea
