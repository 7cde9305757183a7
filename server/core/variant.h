// A model, a version of it, or another attention over its weights: what experiments are about. The
// fields are those of proto/fovea/v1/comparison.proto.
#pragma once

#include <string>

namespace fovea {

// As a caller names it.
struct Variant {
  std::string model_name;
  std::string model_version;  // empty: the latest that is served
  std::string attention;      // empty: the model's own
};

}  // namespace fovea
