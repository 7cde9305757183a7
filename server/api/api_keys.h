// The file of API keys (--api-keys-file): who may call, and how much.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/api/api_methods.h"

namespace fovea {

using KeyDigest = std::array<uint8_t, 32>;

// SHA-256. No slow hash: a key is 32 random bytes, which nobody finds by trying.
KeyDigest DigestOf(std::string_view key);

struct KeyLimits {
  int64_t requests_per_second = 0;  // 0: any number
  int64_t burst = 0;                // requests that may come at once after a rest; with a rate
  int64_t concurrency = 0;  // requests that have come and whose answers have not left; 0: any
};

struct ApiKey {
  std::string name;  // for logs, receipts and metrics
  KeyDigest digest{};
  ApiGroups groups;
  KeyLimits limits;
};

// JSON: {"keys": [{"name": "team-a", "sha256": "<64 hex digits>", "groups": ["inference"],
// "requests_per_second": 100, "burst": 200, "concurrency": 32}]}; the last three may be absent, and
// burst is then one second's requests. INVALID_ARGUMENT (keys.file): no such JSON, no keys or more
// than limits::kMaxApiKeys, members that are not known, a name or a digest that comes twice.
absl::StatusOr<std::vector<ApiKey>> ParseApiKeys(std::string_view text);

}  // namespace fovea
