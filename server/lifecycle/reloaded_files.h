// Files that are read at the start and again when they have changed: certificates and keys.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// The whole of a file, at most limits::kMaxSecretFileBytes; an error says why not, with its path.
// For the operator.
absl::StatusOr<std::string> ReadOperatorFile(const std::string& path);

// Files that are taken together. Looked at, not watched: what replaces a file (a rename, a link of
// Kubernetes') is seen by its content.
struct FileGroup {
  std::string what;   // for the log
  std::string label;  // for metrics
  std::vector<std::string> paths;
  // Takes what the files hold over, or says what is wrong with it and leaves what was there.
  std::function<absl::Status(const std::vector<std::string>& texts)> take;
};

// Thread-safe. What files hold is taken once it was the same on two looks, so that a file that is
// being written, or the first of two that belong together, is not.
class ReloadedFiles {
 public:
  using ReadFile = std::function<absl::StatusOr<std::string>(const std::string& path)>;
  // Called after each reload with the group's label and whether it was taken.
  using Count = std::function<void(std::string_view label, bool taken)>;

  ReloadedFiles(Clock& clock, Nanos period, ReadFile read, Count count)
      : clock_(clock), period_(period), read_(std::move(read)), count_(std::move(count)) {}
  ~ReloadedFiles();

  // Reads a group and has it taken; its error, or that of a file that cannot be read. Before Start.
  absl::Status Add(FileGroup group);
  // Looks at all of them each period from now on, on a thread of its own. UNAVAILABLE: no thread.
  absl::Status Start();

 private:
  using Texts = absl::StatusOr<std::vector<std::string>>;
  struct Known {
    FileGroup group;
    Texts tried, seen;  // what was taken or refused last; what the last look found
  };

  Texts Read(const FileGroup& group) const;
  void Watch();
  void Look(Known& known) const;

  Clock& clock_;
  const Nanos period_;
  const ReadFile read_;
  const Count count_;
  std::vector<Known> groups_;  // the thread's, once it runs
  Mutex mutex_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace fovea
