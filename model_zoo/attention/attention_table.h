// What can be named in an attention's text: its cores and modules, the options that each takes, and
// what makes it. One entry declares all of it.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace fovea::models {

class AttentionCore;
class AttentionFactory;
class AttentionModule;
struct AttentionSpec;
struct CoreSite;
struct ModuleSite;

struct CoreEntry {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> options;  // of those that AttentionSpec knows
  // A softmax over all keys: a module may use an operator of its own in its place.
  bool dense = false;
  std::shared_ptr<const AttentionCore> (*make)(const AttentionSpec&, const CoreSite&);
};

struct AttentionModuleEntry {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> options;
  bool takes_core = false;
  std::shared_ptr<AttentionModule> (*make)(const AttentionSpec&, const ModuleSite&,
                                           const AttentionFactory&);
};

struct AttentionTable {
  std::span<const CoreEntry> cores;
  std::span<const AttentionModuleEntry> modules;
};

// Null where the name is not listed.
template <typename Entry>
const Entry* FindEntry(std::span<const Entry> entries, std::string_view name) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace fovea::models
