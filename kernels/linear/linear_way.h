// How linear layers run on this machine's CPU.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/linear/packed_matrix.h"

namespace fovea::kernels {

enum class LinearWay {
  kAten,         // at::linear
  kOneDnn,       // onednn_linear.h, one layer after the other
  kTiles,        // linear_chain.h: a tile of rows through all layers, in the layers' own type
  kTilesBf16x3,  // the same, fp32 products as bf16's on AMX (Products::kBf16x3)
  kVectors,      // as kTiles, 8-bit products by VNNI or AVX2; without AMX 8 bits have no other way
};

// Channels of the MLPs that are measured, DeiT-T's and DeiT-B's: the narrower a layer, the more
// what stands around it weighs.
inline constexpr int64_t kNarrowMlp = 192, kWideMlp = 768;
// Their geometric mean: layers of more channels go by the wide one's answer.
inline constexpr int64_t kMaxNarrow = 384;

// "aten", "onednn", "tiles", "tiles_bf16x3", "vectors".
std::string_view NameOf(LinearWay way);

// The one that takes an MLP of a transformer's block through in least time (kernels/choice, the
// questions "linear_fp32", "linear_bf16" and, of kChar, "linear_int8", and "linear_fp32_c768" and
// so on for more than kMaxNarrow channels); kAten where there is none: of kChar, a processor
// without AVX2, on which such layers do not run.
//   `channels`: the fewer of a layer's inputs and outputs, so that the layers of a block agree.
LinearWay FastestLinearWay(c10::ScalarType type, int64_t channels);

// The type of the rows between 8-bit layers: BF16 where this processor multiplies it, else FP32.
c10::ScalarType Int8RowType();

// What matrices are packed for; none for ways that do not use linear_chain.h.
std::optional<Products> ProductsOf(LinearWay way, c10::ScalarType type);

// Whether such matrices are packed for AMX.
bool PacksForAmx(LinearWay way, Products products);

}  // namespace fovea::kernels
