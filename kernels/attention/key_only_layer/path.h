// Which way to Y is fastest on this machine.
#pragma once
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace fovea::kernels {

enum class KeyOnlyPath {
  kPlain,       // equation 4 as it stands: four products over the tokens
  kHalfFolded,  // three, given products of the parameters
  kFolded,      // one, and one of C^3 for each image
};

// "plain", "half_folded", "folded".
std::string_view NameOfPath(KeyOnlyPath path);

struct KeyOnlyLayerShape {
  int64_t tokens, channels, heads;
  c10::ScalarType type;
  c10::Device device;
  bool prepared;  // the parameters' products are given
};

// The question of kernels/choice that stands for calls of this shape and those alike, tokens and
// channels rounded up to 2^n or 1.5 * 2^n: "key_only_layer_fp32_n768_c128". Of more than 4,096
// tokens what is best of 4,096; "_unprepared" where a call has to work out products of parameters.
std::string KeyOnlyQuestion(const KeyOnlyLayerShape& shape);

// Asked of one image of that size, in each call: once measured, an answer takes microseconds. While
// a CUDA graph is captured, none is measured.
KeyOnlyPath FastestKeyOnlyPath(const KeyOnlyLayerShape& shape);

}  // namespace fovea::kernels
