// How linear layers run on this machine's CPU.
#pragma once
#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

#include "kernels/linear/packed_matrix.h"

namespace fovea::kernels {

enum class LinearWay {
  kAten,          // at::linear
  kOneDnn,        // onednn_linear.h, one layer after the other
  kTiles,         // linear_chain.h, in the layers' own type
  kTilesInParts,  // the same, fp32 products in parts (Products::kBf16Parts)
};

// "aten", "onednn", "tiles", "tiles_in_parts".
std::string_view NameOf(LinearWay way);

// The one that takes an MLP of a transformer's block through in least time (kernels/choice, the
// questions "linear_fp32" and "linear_bf16"); kAten where oneDNN runs neither way.
LinearWay FastestLinearWay(c10::ScalarType type);

// Of matrices for linear_chain.h; none for the other ways.
std::optional<Products> ProductsOf(LinearWay way, c10::ScalarType type);

}  // namespace fovea::kernels
