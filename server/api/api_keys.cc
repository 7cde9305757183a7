#include "server/api/api_keys.h"

#include <openssl/sha.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/unique_json.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

using nlohmann::json;

absl::Status Wrong(std::string_view what) { return InvalidArgument("keys.file", what); }

// A label, a field of the log.
bool IsName(const std::string& text) {
  return !text.empty() && text.size() <= limits::kMaxApiKeyNameBytes &&
         std::ranges::all_of(text, [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

absl::StatusOr<KeyDigest> ReadDigest(const json& text) {
  KeyDigest digest;
  const std::string hex = text.is_string() ? text.get<std::string>() : "";
  if (hex.size() != 2 * digest.size() ||
      !std::ranges::all_of(hex, [](unsigned char c) { return absl::ascii_isxdigit(c); })) {
    return Wrong("'sha256' is not 64 hexadecimal digits");
  }
  std::ranges::copy(absl::HexStringToBytes(hex), digest.begin());
  return digest;
}

absl::Status ReadCount(const json& key, const char* name, int64_t most, int64_t* count) {
  const auto found = key.find(name);
  if (found == key.end()) return absl::OkStatus();
  if (!found->is_number_unsigned() || found->get<uint64_t>() < 1 ||
      found->get<uint64_t>() > static_cast<uint64_t>(most)) {
    return Wrong(absl::StrCat("'", name, "' is no whole number from 1 to ", most));
  }
  *count = found->get<int64_t>();
  return absl::OkStatus();
}

absl::Status ReadGroups(const json& key, ApiGroups* groups) {
  const auto found = key.find("groups");
  if (found == key.end() || !found->is_array() || found->empty()) {
    return Wrong("'groups' is no list of groups");
  }
  for (const json& name : *found) {
    const std::string text = name.is_string() ? name.get<std::string>() : "";
    if (!groups->Add(text)) {
      return Wrong(absl::StrCat(InQuotes(text), " is no group of methods"));
    }
  }
  return absl::OkStatus();
}

absl::Status OnlyKnown(const json& object, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(known, name) == known.end()) {
      return Wrong(absl::StrCat("unknown member ", InQuotes(name)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ApiKey> ReadKey(const json& object) {
  ApiKey key;
  if (!object.is_object()) return Wrong("no object");
  FOVEA_RETURN_IF_ERROR(OnlyKnown(
      object, {"name", "sha256", "groups", "requests_per_second", "burst", "concurrency"}));
  key.name = object.contains("name") && object["name"].is_string()
                 ? object["name"].get<std::string>()
                 : "";
  if (!IsName(key.name)) {
    return Wrong(absl::StrCat("'name' is not 1 to ", limits::kMaxApiKeyNameBytes,
                              " letters, digits, '-', '_' and '.'"));
  }
  FOVEA_ASSIGN_OR_RETURN(key.digest, ReadDigest(object.value("sha256", json())));
  FOVEA_RETURN_IF_ERROR(ReadGroups(object, &key.groups));
  FOVEA_RETURN_IF_ERROR(ReadCount(object, "requests_per_second", limits::kMaxKeyRate,
                                  &key.limits.requests_per_second));
  FOVEA_RETURN_IF_ERROR(ReadCount(object, "burst", limits::kMaxKeyRate, &key.limits.burst));
  FOVEA_RETURN_IF_ERROR(
      ReadCount(object, "concurrency", limits::kMaxKeyConcurrency, &key.limits.concurrency));
  if (key.limits.requests_per_second == 0 && key.limits.burst > 0) {
    return Wrong("'burst' without 'requests_per_second'");
  }
  if (key.limits.burst == 0) key.limits.burst = key.limits.requests_per_second;
  return key;
}

}  // namespace

KeyDigest DigestOf(std::string_view key) {
  KeyDigest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

absl::StatusOr<std::vector<ApiKey>> ParseApiKeys(std::string_view text) {
  const std::optional<json> parsed = ParseUniqueJson(text);
  if (!parsed || !parsed->is_object()) {
    return Wrong("no JSON object, or one that names something twice");
  }
  const json& file = *parsed;
  FOVEA_RETURN_IF_ERROR(OnlyKnown(file, {"keys"}));
  if (!file.contains("keys") || !file["keys"].is_array()) return Wrong("'keys' is no list");
  const json& list = file["keys"];
  if (list.empty() || list.size() > limits::kMaxApiKeys) {
    return Wrong(absl::StrCat("a file has 1 to ", limits::kMaxApiKeys, " keys"));
  }
  std::vector<ApiKey> keys;
  std::set<std::string> names;
  std::set<KeyDigest> digests;
  for (size_t i = 0; i < list.size(); ++i) {
    absl::StatusOr<ApiKey> key = ReadKey(list[i]);
    if (!key.ok()) {
      return Wrong(absl::StrCat("keys[", i, "]: ", std::string(key.status().message())));
    }
    if (!names.insert(key->name).second || !digests.insert(key->digest).second) {
      return Wrong(absl::StrCat("keys[", i, "]: the same name or digest as another key"));
    }
    keys.push_back(*std::move(key));
  }
  return keys;
}

}  // namespace fovea
