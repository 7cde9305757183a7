// Patches as a prepared model cuts them out: rows of 8 and 16 bytes go another way than others.
#include "model_zoo/layers/patch_embed.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace fovea::models {
namespace {

TEST(PatchEmbedTest, PreparedOrNotTokensAreProductsOfThePublishedPatches) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kChannels = 24;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t patch : {2, 4, 8, 16}) {
      PatchEmbed embed(patch, kChannels);
      embed.eval();
      auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
      for (at::Tensor& parameter : embed.parameters()) parameter.normal_(0, 0.1, generator);
      const at::Tensor weight = embed.parameters()[0].clone(), bias = embed.parameters()[1].clone();
      const at::Tensor pixels = at::randn({3, 3, 2 * patch, 3 * patch}, generator);
      const at::Tensor wide = at::randn({2, 3, 2 * patch, 3 * patch + 1}, generator);
      const auto check = [&](const char* state, double tolerance) {
        for (const at::Tensor& map :
             {pixels, pixels.contiguous(at::MemoryFormat::ChannelsLast), pixels.slice(0, 1, 3),
              wide.slice(3, 1), pixels.slice(0, 0, 0)}) {
          const at::Tensor expected =
              at::conv2d(map.contiguous(), weight, bias, patch).flatten(2).transpose(1, 2);
          const at::Tensor tokens = embed.forward(map).to(at::kFloat);
          ASSERT_EQ(tokens.sizes(), expected.sizes());
          EXPECT_TRUE(at::allclose(tokens, expected, tolerance, tolerance))
              << state << ", patches of " << patch << " in " << type << ", strides "
              << map.strides();
        }
      };
      check("trainable", 1e-4);
      embed.Prepare({.dtype = type});
      // Pixels, weights and tokens are rounded to 2^-9 of themselves.
      check("prepared", type == at::kFloat ? 1e-4 : 0.05);
    }
  }
}

}  // namespace
}  // namespace fovea::models
