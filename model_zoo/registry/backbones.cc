#include "model_zoo/registry/backbones.h"

#include <algorithm>

#include "model_zoo/backbones/register.h"

namespace fovea::models {

const std::vector<BackboneEntry>& Backbones() {
  static const BackboneRegistry registry = [] {
    BackboneRegistry filled;
    RegisterVit(filled);
    RegisterSwin(filled);
    RegisterAewin(filled);
    RegisterCswin(filled);
    RegisterPale(filled);
    RegisterCvt(filled);
    RegisterPit(filled);
    RegisterTwins(filled);
    RegisterVisformer(filled);
    RegisterVolo(filled);
    RegisterTnt(filled);
    RegisterT2t(filled);
    RegisterSoVit(filled);
    RegisterCait(filled);
    RegisterMetaFormer(filled);
    RegisterLinGlo(filled);
    RegisterResNet(filled);
    RegisterDemoFrame(filled);
    RegisterIdentity(filled);
    return filled;
  }();
  return registry.entries();
}

const BackboneEntry* FindBackbone(std::string_view name) {
  const std::vector<BackboneEntry>& entries = Backbones();
  const auto found = std::ranges::find(entries, name, &BackboneEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace fovea::models
