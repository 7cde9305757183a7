#include "model_zoo/layers/position_embedding.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/registry/load.h"

namespace fovea::models {
namespace {

TEST(SinusoidPositionsTest, EvenChannelsAreSinesAndOddOnesTheirCosines) {
  const at::Tensor table = SinusoidPositions(50, 8);
  ASSERT_EQ(table.sizes(), at::IntArrayRef({1, 50, 8}));
  const double wavelengths[] = {1, 10, 100, 1000};  // over 2 pi: 10000^(2i/8)
  for (int64_t token : {0, 1, 17, 49}) {
    for (int64_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(token) / wavelengths[i];
      EXPECT_NEAR(table[0][token][2 * i].item<double>(), std::sin(angle), 1e-6);
      EXPECT_NEAR(table[0][token][2 * i + 1].item<double>(), std::cos(angle), 1e-6);
    }
  }
}

TEST(SinusoidPositionsTest, T2tStartsFromThemAndDoesNotTrainThem) {
  const auto parameters =
      LoadBackbone({.backbone = "t2t_vit_t_19", .random_weights_seed = 1})->named_parameters();
  const at::Tensor& stored = parameters["pos_embed"];
  EXPECT_FALSE(stored.requires_grad());
  EXPECT_TRUE(at::equal(stored, SinusoidPositions(197, 448)));
  EXPECT_TRUE(parameters["cls_token"].requires_grad());
}

}  // namespace
}  // namespace fovea::models
