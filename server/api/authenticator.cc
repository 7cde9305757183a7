#include "server/api/authenticator.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

constexpr std::string_view kScheme = "bearer ";  // in any case (RFC 9110, section 11.1)

bool IsKeyCharacter(unsigned char c) {
  return absl::ascii_isalnum(c) || std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

// The key of "Bearer KEY" (RFC 6750, section 2.1).
absl::StatusOr<std::string_view> ShownKey(std::span<const std::string_view> authorization) {
  if (authorization.empty()) {
    return Unauthenticated("auth.no_key", "an API key is needed: 'Authorization: Bearer KEY'");
  }
  // Two readers may take two of them.
  if (authorization.size() > 1) {
    return Unauthenticated("auth.several_keys", "the header 'Authorization' came more than once");
  }
  const std::string_view shown = authorization[0];
  const std::string_view key = shown.substr(std::min(kScheme.size(), shown.size()));
  const bool bearer =
      absl::StartsWithIgnoreCase(absl::string_view(shown.data(), shown.size()), kScheme.data());
  if (!bearer || key.empty() || key.size() > limits::kMaxCredentialBytes ||
      !std::ranges::all_of(key, IsKeyCharacter)) {
    return Unauthenticated("auth.malformed", "the header 'Authorization' is not 'Bearer KEY'");
  }
  return key;
}

std::string NameOf(ApiGroup group) {
  return std::string(kApiGroupNames[static_cast<size_t>(group)]);
}

}  // namespace

void Authenticator::SetKeys(std::vector<ApiKey> keys) {
  const std::shared_ptr<const Keys> before = this->keys();
  auto known = std::make_shared<Keys>();
  for (ApiKey& key : keys) {
    std::shared_ptr<KeyQuota> quota;
    for (const Known& old : before == nullptr ? Keys() : *before) {
      if (old.key.name == key.name) quota = old.quota;
    }
    if (quota != nullptr) {
      quota->SetLimits(key.limits);
    } else {
      quota = std::make_shared<KeyQuota>(key.limits);
    }
    known->push_back({std::move(key), std::move(quota)});
  }
  MutexLock lock(mutex_);
  keys_ = std::move(known);
}

Caller Authenticator::Identify(const ShownCredentials& shown, ApiGroup group,
                               const ApiGroups& port) const {
  Caller caller{.protocol = shown.protocol, .principal = std::string(shown.certificate)};
  if (group == ApiGroup::kHealth) return caller;
  if (!port.Has(group)) {
    caller.refused = PermissionDenied("auth.group_closed",
                                      absl::StrCat("this port does not answer methods of the "
                                                   "group '",
                                                   NameOf(group), "'"));
    return caller;
  }
  if (const auto keys = this->keys(); keys != nullptr && !IsOpen(group)) {
    caller.refused = CheckKey(shown, *keys, group, caller);
  }
  return caller;
}

absl::Status Authenticator::CheckKey(const ShownCredentials& shown, const Keys& keys,
                                     ApiGroup group, Caller& caller) {
  FOVEA_ASSIGN_OR_RETURN(const std::string_view shown_key, ShownKey(shown.authorization));
  const KeyDigest digest = DigestOf(shown_key);
  const Known* found = nullptr;
  for (const Known& known : keys) {  // each of them, to its last byte
    if (CRYPTO_memcmp(digest.data(), known.key.digest.data(), digest.size()) == 0) found = &known;
  }
  if (found == nullptr) return Unauthenticated("auth.unknown_key", "the API key is not known");
  caller.principal = caller.key = found->key.name;
  if (!found->key.groups.Has(group)) {
    return PermissionDenied(
        "auth.group_not_allowed",
        absl::StrCat("the API key does not allow methods of the group '", NameOf(group), "'"));
  }
  caller.quota = found->quota;
  return absl::OkStatus();
}

}  // namespace fovea
