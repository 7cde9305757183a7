// What can be named in an attention's text: its cores and modules, and what makes each.
#pragma once

#include <memory>
#include <span>
#include <string_view>

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
  std::shared_ptr<const AttentionCore> (*make)(const AttentionSpec&, const CoreSite&);
};

struct AttentionModuleEntry {
  std::string_view name;
  std::string_view summary;
  std::shared_ptr<AttentionModule> (*make)(const AttentionSpec&, const ModuleSite&,
                                           const AttentionFactory&);
};

struct AttentionTable {
  std::span<const CoreEntry> cores;
  std::span<const AttentionModuleEntry> modules;
};

}  // namespace fovea::models
