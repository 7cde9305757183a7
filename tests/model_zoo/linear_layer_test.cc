// By which way a prepared linear layer runs.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kernels/simd/gemm.h"
#include "model_zoo/layers/linear.h"
#include "tests/kernels/scoped_choose.h"

namespace fovea::models {
namespace {

// Whether a layer so wide is one of a chain of tiles and not a product of oneDNN's.
bool IsOfAChain(int64_t in, int64_t out) {
  Linear layer(in, out);
  layer.eval();
  layer.Prepare({});
  return layer.matrix() != nullptr;
}

TEST(LinearLayerTest, WideOnesChooseByThemselves) {
  if (!kernels::simd::HasFp32Gemm()) GTEST_SKIP() << "there is nothing to choose";
  for (const bool wide : {false, true}) {
    SCOPED_TRACE(wide);
    const std::string tiles = "tiles", onednn = "onednn";
    const kernels::ScopedChoose forced("linear_fp32=" + (wide ? onednn : tiles) +
                                       ",linear_fp32_c768=" + (wide ? tiles : onednn));
    // By the fewer of inputs and outputs: both layers of an MLP run in one way.
    EXPECT_EQ(IsOfAChain(384, 384), !wide);
    EXPECT_EQ(IsOfAChain(384, 1536), !wide);
    EXPECT_EQ(IsOfAChain(1536, 384), !wide);
    EXPECT_EQ(IsOfAChain(385, 385), wide);
    EXPECT_EQ(IsOfAChain(768, 3072), wide);
    EXPECT_EQ(IsOfAChain(3072, 768), wide);
  }
}

}  // namespace
}  // namespace fovea::models
