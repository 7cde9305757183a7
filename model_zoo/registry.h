// Everything that can be named in a model description, in explicit lists (registry.cc): backbones,
// attention modules, attention cores. Includes neither torch nor protobuf.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model_zoo/model_description.h"

namespace fovea::models {

class AttentionCore;
class AttentionFactory;
class AttentionModule;
class Backbone;
struct AttentionSpec;
struct CoreSite;
struct ModuleSite;

struct BackboneEntry {
  std::string name;     // timm's where timm has the variant
  std::string summary;  // for --help and the documents
  // Builds it in its trainable state, not yet filled. Throws c10::Error where the description asks
  // for what it cannot be.
  std::function<std::shared_ptr<Backbone>(const ModelDescription&)> make;
  // The same architecture with few channels and blocks: same inputs, stages, grids and heads. For
  // tests of what goes for every backbone.
  std::function<std::shared_ptr<Backbone>(const ModelDescription&)> make_tiny;
};

// Filled once by the Register functions of backbones/, in the order in which they are listed.
class BackboneRegistry {
 public:
  void Add(BackboneEntry entry);  // names are unique
  const std::vector<BackboneEntry>& entries() const { return entries_; }

 private:
  std::vector<BackboneEntry> entries_;
};

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

const std::vector<BackboneEntry>& Backbones();
const std::vector<CoreEntry>& Cores();
const std::vector<AttentionModuleEntry>& AttentionModules();

// Null where the name is not listed.
const BackboneEntry* FindBackbone(std::string_view name);
const CoreEntry* FindCore(std::string_view name);
const AttentionModuleEntry* FindAttentionModule(std::string_view name);

}  // namespace fovea::models
