// What the repository tells about its work, for logs and metrics.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "server/core/clock.h"

namespace fovea {

// Called on any thread, with no lock held; must return quickly.
class RepositoryObserver {
 public:
  virtual ~RepositoryObserver() = default;

  struct LoadReport {
    std::string_view model;
    int64_t version = 0;  // 0: the model as a whole, which could not be read
    absl::Status status;
    Nanos duration = 0;
    bool serving =
        false;  // this version, or where it failed an older load of it or another version
  };
  virtual void OnLoad(const LoadReport& report) = 0;

  // A version that served has answered its canary wrongly and is out of service, or rightly again
  // and is back.
  struct CanaryReport {
    std::string_view model;
    int64_t version = 0;
    absl::Status status;
  };
  virtual void OnCanary(const CanaryReport& report) = 0;

  // A version that served is out of service until it is loaded again: it can answer nothing any
  // more.
  virtual void OnLost(std::string_view model, int64_t version, const absl::Status& why) = 0;

  // The last request of a version that was replaced or unloaded is done, and its memory freed.
  virtual void OnUnloaded(std::string_view model, int64_t version) = 0;

  // A repository folder cannot be listed; what serves goes on.
  virtual void OnUnreadableRepository(const absl::Status& problem) = 0;

  // A folder that is not called like a model. The name is anything that a file can be called.
  virtual void OnIgnoredFolder(std::string_view name) = 0;
};

}  // namespace fovea
