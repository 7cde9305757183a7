// What health says of the server, its services and every model, whatever the protocol.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/mutex.h"

namespace fovea {

enum class ServingStatus { kUnknown, kServing, kNotServing };

// Somebody who watches a name. Thread-safe.
class HealthWatcher {
 public:
  virtual ~HealthWatcher() = default;
  // The status may have changed: asks the board what it is now. Whoever changes it calls this
  // afterwards, so that the last call, however they interleave, sees the last change.
  virtual void Refresh() = 0;
  // The server ends.
  virtual void Close() = 0;
};

// Which names serve. "" stands for the server. Thread-safe.
//
// A name is a service's or "model/<name>" (any version of it is ready) or "model/<name>/<version>".
// None serves before SetServing(true) and after SetServing(false), whatever its models do. A model
// that was ready once stays known and reads kNotServing when it is unloaded; but for a variant,
// which callers may make up any number of.
class HealthBoard {
 public:
  // A name that serves as the server does.
  void AddService(std::string_view name);
  void SetServing(bool serving);
  void SetModelReady(std::string_view model, std::string_view version, bool ready);
  // Closes the watchers, now and later.
  void Close();

  bool serving() const;
  // kUnknown: nobody has told of it.
  ServingStatus Get(const std::string& name) const;
  std::map<std::string, ServingStatus> List() const;

  // A watcher is refreshed at once and whenever its status may have changed, until it is removed.
  // False, and nothing is added, where limits::kMaxHealthWatches are there.
  bool Add(std::shared_ptr<HealthWatcher> watcher);
  void Remove(HealthWatcher* watcher);

 private:
  ServingStatus GetLocked(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::shared_ptr<HealthWatcher>> Watchers() const;

  mutable Mutex mutex_;  // never held while a watcher is called
  std::set<std::string> services_ ABSL_GUARDED_BY(mutex_) = {""};
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::map<std::string, bool>> models_ ABSL_GUARDED_BY(mutex_);  // by version
  std::map<HealthWatcher*, std::shared_ptr<HealthWatcher>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
