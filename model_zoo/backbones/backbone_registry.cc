#include "model_zoo/backbones/backbone_registry.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace fovea::models {

void BackboneRegistry::Add(BackboneEntry entry) {
  TORCH_INTERNAL_ASSERT(
      std::ranges::find(entries_, entry.name, &BackboneEntry::name) == entries_.end(),
      "two backbones are named ", entry.name);
  entries_.push_back(std::move(entry));
}

}  // namespace fovea::models
