// What a call of k-NN attention selects of every row.
#pragma once
#include <cstdint>

#include "kernels/attention/shared/select.h"

namespace fovea::kernels::knn {

struct Selection {
  int32_t topk;
  NormalRank rank;  // of topk in the keys; unused where they are equal
};

inline Selection SelectionOf(int64_t topk, int64_t keys) {
  return {static_cast<int32_t>(topk), topk < keys ? RankInNormal(topk, keys) : NormalRank{}};
}

}  // namespace fovea::kernels::knn
