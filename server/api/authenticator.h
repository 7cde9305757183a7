// Whom a call's credentials prove its caller to be, and which methods that one may call: one rule
// for every protocol and method.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/api/api_keys.h"
#include "server/api/api_methods.h"
#include "server/api/caller.h"
#include "server/api/key_quota.h"
#include "server/core/mutex.h"
#include "server/core/protocol.h"

namespace fovea {

// What a caller has shown.
struct ShownCredentials {
  Protocol protocol = Protocol::kGrpc;
  std::span<const std::string_view> authorization;  // the values of that header, as they came
  std::string_view certificate;  // whom its TLS certificate names, which has been checked; or empty
};

// Thread-safe. Until it is given keys, nobody needs one.
class Authenticator {
 public:
  // From now on these keys and no others are known. A key of the same name goes on with its quota's
  // count.
  void SetKeys(std::vector<ApiKey> keys);
  // Whether there are keys, so that everything but health needs one.
  bool asks_for_keys() const { return keys() != nullptr; }

  // Who calls a method of `group` at a port that answers `port`. `refused` there says why it may
  // not: PERMISSION_DENIED auth.group_closed (the port), auth.group_not_allowed (the key);
  // UNAUTHENTICATED auth.no_key, auth.several_keys, auth.malformed (no "Bearer KEY", too long),
  // auth.unknown_key. Health is open to everyone, and the playground's pages where the port answers
  // them. How long it takes does not depend on how much of a key is right.
  Caller Identify(const ShownCredentials& shown, ApiGroup group, const ApiGroups& port) const;

 private:
  struct Known {
    ApiKey key;
    std::shared_ptr<KeyQuota> quota;
  };
  using Keys = std::vector<Known>;

  std::shared_ptr<const Keys> keys() const {
    MutexLock lock(mutex_);
    return keys_;
  }
  static absl::Status CheckKey(const ShownCredentials& shown, const Keys& keys, ApiGroup group,
                               Caller& caller);

  mutable Mutex mutex_;
  std::shared_ptr<const Keys> keys_ ABSL_GUARDED_BY(mutex_);  // null: nobody needs one
};

}  // namespace fovea
