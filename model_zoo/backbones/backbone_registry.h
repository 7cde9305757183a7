// What the zoo knows of a backbone, and the list that the Register functions fill. Includes neither
// torch nor protobuf.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model_zoo/model_description.h"

namespace fovea::models {

class Backbone;

struct BackboneEntry {
  std::string name;     // timm's where timm has the variant
  std::string summary;  // for --help and the documents
  // Builds it in its trainable state, not yet filled. Throws c10::Error where the description asks
  // for what it cannot be.
  std::function<std::shared_ptr<Backbone>(const ModelDescription&)> make;
  // The same architecture with few channels and blocks: same inputs, stages, grids and heads. For
  // tests of what goes for every backbone.
  std::function<std::shared_ptr<Backbone>(const ModelDescription&)> make_tiny;
  bool takes_vit_sizes = false;  // the description's `vit`
};

// Filled once by the Register functions of backbones/, in the order in which they are listed.
class BackboneRegistry {
 public:
  void Add(BackboneEntry entry);  // names are unique
  const std::vector<BackboneEntry>& entries() const { return entries_; }

 private:
  std::vector<BackboneEntry> entries_;
};

}  // namespace fovea::models
