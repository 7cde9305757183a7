#include "server/scheduler/batch.h"

#include "base/check.h"

namespace fovea {

std::string_view CloseReasonName(CloseReason reason) {
  switch (reason) {
    case CloseReason::kFull:
      return "full";
    case CloseReason::kPreferred:
      return "preferred";
    case CloseReason::kDeadline:
      return "deadline";
    case CloseReason::kDelay:
      return "delay";
    case CloseReason::kIdle:
      return "idle";
    case CloseReason::kDrain:
      return "drain";
  }
  FOVEA_CHECK(false && "a close reason without a name");
}

Batch::~Batch() { FOVEA_CHECK(state_ != BatchState::kClosed); }

void Batch::MoveTo(BatchState next) {
  FOVEA_CHECK(static_cast<int>(next) == static_cast<int>(state_) + 1);
  state_ = next;
}

}  // namespace fovea
