#include "model_zoo/registry.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "model_zoo/attention/cores/cores.h"
#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/backbones/identity.h"
#include "model_zoo/backbones/so_vit.h"
#include "model_zoo/backbones/swin.h"
#include "model_zoo/backbones/t2t.h"
#include "model_zoo/backbones/tnt.h"
#include "model_zoo/backbones/vit.h"
#include "model_zoo/backbones/volo.h"

namespace fovea::models {
namespace {

template <typename Entry>
const Entry* Find(const std::vector<Entry>& entries, std::string_view name) {
  auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace

void BackboneRegistry::Add(BackboneEntry entry) {
  TORCH_INTERNAL_ASSERT(Find(entries_, entry.name) == nullptr, "two backbones are named ",
                        entry.name);
  entries_.push_back(std::move(entry));
}

const std::vector<BackboneEntry>& Backbones() {
  static const BackboneRegistry registry = [] {
    BackboneRegistry filled;
    RegisterVit(filled);
    RegisterSwin(filled);
    RegisterSoVit(filled);
    RegisterT2t(filled);
    RegisterTnt(filled);
    RegisterVolo(filled);
    RegisterIdentity(filled);
    return filled;
  }();
  return registry.entries();
}

const std::vector<CoreEntry>& Cores() {
  static const std::vector<CoreEntry> cores = {
      {"dense", "softmax over all keys", MakeDenseCore},
      {"knn", "softmax over the k largest logits of each query (k=count or share)", MakeKnnCore},
  };
  return cores;
}

const std::vector<AttentionModuleEntry>& AttentionModules() {
  static const std::vector<AttentionModuleEntry> modules = {
      {"self", "global: every token attends every token", MakeSelfAttention},
      {"shifted_window", "windows, shifted by half in every other block", MakeShiftedWindow},
  };
  return modules;
}

const BackboneEntry* FindBackbone(std::string_view name) { return Find(Backbones(), name); }
const CoreEntry* FindCore(std::string_view name) { return Find(Cores(), name); }
const AttentionModuleEntry* FindAttentionModule(std::string_view name) {
  return Find(AttentionModules(), name);
}

}  // namespace fovea::models
