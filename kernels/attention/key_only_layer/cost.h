// Which way to Y is cheapest: pure functions of the call's shape.
#pragma once
#include <cstdint>

namespace fovea::kernels {

enum class KeyOnlyPath {
  kPlain,       // equation 4 as it stands: four products over the tokens
  kHalfFolded,  // three, given products of the parameters
  kFolded,      // one, and one of C^3 for each image
};

struct KeyOnlyLayerShape {
  int64_t batch, tokens, channels, heads;
  bool half_width;  // bf16 or fp16
  bool prepared;    // the parameters' products are given
};

// The nanoseconds that a call is expected to take on the machine of cost.cc's constants. Elsewhere
// they are off, but mostly by a common factor: only their order is used.
double ExpectedNanoseconds(KeyOnlyPath path, const KeyOnlyLayerShape& shape);

// The path that is expected to take least; the simpler of equals.
KeyOnlyPath CheapestKeyOnlyPath(const KeyOnlyLayerShape& shape);

}  // namespace fovea::kernels
