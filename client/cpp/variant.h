// What a measurement, an explanation or an arm of a live comparison is of.
#pragma once

#include <string>

#include "client/cpp/types.h"

namespace fovea::client {

// What is run: a served model, with its own attention or with another one over its weights.
struct Variant {
  ModelId model;
  std::string attention;  // empty: the model's own
};

}  // namespace fovea::client
