// Who makes a call, and whether that one may: found out by a transport when a call begins
// (Authenticator), asked when it is to be done.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/status.h"
#include "server/api/key_quota.h"
#include "server/core/clock.h"
#include "server/core/protocol.h"

namespace fovea {

// Not thread-safe.
struct Caller {
  Protocol protocol = Protocol::kGrpc;
  std::string principal;            // whom the caller has proved to be; empty: nobody in particular
  std::string key;                  // the name of the API key, where it has shown one
  absl::Status refused;             // why it may not call
  std::shared_ptr<KeyQuota> quota;  // of the key; null: none
  std::shared_ptr<KeyQuota::Place> place;  // among the key's requests, once admitted

  // Before the call is done: `refused`, or KeyQuota::Take's errors. The request counts among those
  // under way for as long as this lives, or until Leave; once, however often it is asked.
  absl::Status Admit(Nanos now) {
    FOVEA_RETURN_IF_ERROR(refused);
    if (quota == nullptr || place != nullptr) return absl::OkStatus();
    FOVEA_ASSIGN_OR_RETURN(place, quota->Take(now));
    return absl::OkStatus();
  }
  void Leave() { place.reset(); }
};

}  // namespace fovea
