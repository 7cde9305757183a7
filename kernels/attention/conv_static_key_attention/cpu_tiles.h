// The seam between cpu.cc and the code for AMX's tiles.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/shared/attention_way.h"

namespace fovea::kernels::attend {

// Whether a call in this way is one of AttendConvOnTiles'; panels take all others.
bool ByTiles(AttentionWay way, const ConvStaticKeyAttentionInputs& in);

// key_bias: FP32 [heads, keys], scaled; undefined: none.
void AttendConvOnTiles(const ConvStaticKeyAttentionInputs& in, const at::Tensor& key_bias,
                       const at::Tensor& output);

}  // namespace fovea::kernels::attend
