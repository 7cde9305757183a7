#include "server/lifecycle/server_phase.h"

#include <utility>

#include "base/check.h"

namespace fovea {

ServerPhase::ServerPhase(std::function<void(Phase)> on_enter) : on_enter_(std::move(on_enter)) {}

bool ServerPhase::Advance(Phase to) {
  MutexLock lock(mutex_);
  if (to <= phase_) return false;
  FOVEA_CHECK(to != Phase::kStopped || phase_ == Phase::kDraining);
  phase_ = to;
  on_enter_(to);
  return true;
}

Phase ServerPhase::now() const {
  MutexLock lock(mutex_);
  return phase_;
}

}  // namespace fovea
