#include "model_zoo/training/tasks/extent_guide.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace fovea::models::training {
namespace {

constexpr int64_t kCells = 16;  // of a patch, row by row

TEST(ExtentGuideTest, KnowsNothingAtFirst) {
  const ExtentGuide guide(8);
  const at::Tensor extent = at::zeros({2, 64, 64}, at::kByte);
  EXPECT_NEAR(guide.Loss(at::randn({2, 65, 8}), extent).item<double>(), std::log(2.0), 1e-6);
}

// A guide that hands its tokens through: each token's channels are then the logits of its cells.
TEST(ExtentGuideTest, ComparesEachTokenWithTheCellsOfItsOwnPatch) {
  const ExtentGuide guide(kCells);
  guide.weight().detach().copy_(at::eye(kCells));
  at::Tensor extent = at::zeros({1, 64, 64}, at::kByte);
  // Patch (row 2, column 5), cell (row 1, column 3): two by two pixels.
  extent.slice(1, 2 * 8 + 2, 2 * 8 + 4).slice(2, 5 * 8 + 6, 5 * 8 + 8).fill_(255);
  at::Tensor tokens = at::full({1, 65, kCells}, -20.0f);
  tokens[0][1 + 2 * 8 + 5][1 * 4 + 3] = 20.0f;
  EXPECT_LT(guide.Loss(tokens, extent).item<double>(), 1e-6);

  tokens[0][1 + 2 * 8 + 5][1 * 4 + 3] = -20.0f;  // missed
  EXPECT_NEAR(guide.Loss(tokens, extent).item<double>(), 20.0 / (64 * kCells), 1e-4);
}

TEST(ExtentGuideTest, ABlockThatTheBackboneLacksIsAnError) {
  BlockOutput output("blocks.99");
  output.Record("blocks.1", "output", at::zeros({1}));
  output.Record("blocks.99", "attention", at::zeros({1}));
  EXPECT_THROW(output.tokens(), c10::ValueError);
  output.Record("blocks.99", "output", at::ones({1}));
  EXPECT_EQ(output.tokens().item<float>(), 1.0f);
}

}  // namespace
}  // namespace fovea::models::training
