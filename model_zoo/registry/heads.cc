#include "model_zoo/registry/heads.h"

namespace fovea::models {

const std::vector<HeadEntry>& Heads() {
  static const std::vector<HeadEntry> heads = {
      {"classifier", "the backbone's own: a logit for each class", Task::kClassification, nullptr},
  };
  return heads;
}

}  // namespace fovea::models
