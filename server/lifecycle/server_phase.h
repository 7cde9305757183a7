// Where the server is in its life.
#pragma once

#include <functional>

#include "server/core/mutex.h"

namespace fovea {

enum class Phase { kStarting, kServing, kDraining, kStopped };

// Thread-safe. Goes one way: starting -> serving -> draining -> stopped; a stop that comes while
// models are being loaded goes from starting to draining.
class ServerPhase {
 public:
  // `on_enter` hears of each phase after the first: in their order, one at a time, on the thread
  // that advanced. It must not call back.
  explicit ServerPhase(std::function<void(Phase)> on_enter);

  // True where this call entered `to`. False, and nothing happens, where the server is there
  // already or past it: models that become ready after a stop has begun change nothing. A step that
  // leaves out draining ends the process.
  bool Advance(Phase to);

  Phase now() const;

 private:
  const std::function<void(Phase)> on_enter_;
  mutable Mutex mutex_;  // held while on_enter_ runs
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kStarting;
};

}  // namespace fovea
