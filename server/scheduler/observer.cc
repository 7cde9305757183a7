#include "server/scheduler/observer.h"

#include "base/check.h"

namespace fovea {

std::string_view RejectionName(Rejection reason) {
  switch (reason) {
    case Rejection::kFull:
      return "full";
    case Rejection::kDeadline:
      return "deadline";
    case Rejection::kCancelled:
      return "cancelled";
    case Rejection::kDraining:
      return "draining";
  }
  FOVEA_CHECK(false && "a rejection without a name");
}

}  // namespace fovea
