// What health says of the server, its services and every model, whatever the protocol.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/model_catalog.h"
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
// None serves before SetServing(true) and after SetServing(false), whatever its models do, nor once
// the last of the models that served is away: nothing could be answered. A model that is
// unloaded stays known with its last version, and reads kNotServing. Other versions that are gone
// are forgotten, and so are variants: callers may make up any number of them.
class HealthBoard {
 public:
  // A name that serves as the server does.
  void AddService(std::string_view name);
  void SetServing(bool serving);
  // From now on nothing serves while no model is ready. Set by the first one that is.
  void NeedModel();
  void SetModel(std::string_view model, std::string_view version, Readiness readiness);
  // Closes the watchers, now and later.
  void Close();

  bool serving() const;
  // kUnknown: nobody has told of it.
  ServingStatus Get(const std::string& name) const;
  std::map<std::string, ServingStatus> List() const;
  // The same without models.
  std::map<std::string, ServingStatus> ListServices() const;

  // A watcher is refreshed at once and whenever its status may have changed, until it is removed.
  void Add(std::shared_ptr<HealthWatcher> watcher);
  void Remove(HealthWatcher* watcher);

 private:
  bool ServingLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ServingStatus GetLocked(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::shared_ptr<HealthWatcher>> Watchers() const;

  mutable Mutex mutex_;  // never held while a watcher is called
  std::set<std::string> services_ ABSL_GUARDED_BY(mutex_) = {""};
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool needs_model_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::map<std::string, Readiness>> models_
      ABSL_GUARDED_BY(mutex_);  // by version
  std::map<HealthWatcher*, std::shared_ptr<HealthWatcher>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
