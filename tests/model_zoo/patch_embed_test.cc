// Patches as a prepared model cuts them out: rows of 8 and 16 bytes in BF16 go another way than
// others.
#include "model_zoo/layers/patch_embed.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/model_zoo/called_operators.h"

namespace fovea::models {
namespace {

constexpr int64_t kChannels = 24;

class PatchEmbedTest : public ::testing::Test {
 protected:
  // Compares tokens with the convolution that they are published as, in fp32. Pixels and weights
  // are rounded to `type` before they are multiplied, and the sum once.
  void Check(const PatchEmbed& embed, const at::Tensor& weight, const at::Tensor& bias,
             const at::Tensor& pixels, at::ScalarType type) {
    const int64_t patch = weight.size(3);
    const auto convolve = [&](const at::Tensor& of, const at::Tensor& by, const at::Tensor& plus) {
      return at::conv2d(of.contiguous(), by, plus, patch).flatten(2).transpose(1, 2);
    };
    const at::Tensor expected = convolve(pixels, weight, bias);
    const at::Tensor magnitude = convolve(pixels.abs(), weight.abs(), bias.abs());
    const double additions = 3.0 * static_cast<double>(patch * patch) + 1;
    double rounding = 2 * additions * std::ldexp(1, -24);  // of both sums
    if (type == at::kBFloat16) rounding += 3 * std::ldexp(1, -8);
    const at::Tensor tokens = embed.forward(pixels).to(at::kFloat);
    ASSERT_EQ(tokens.sizes(), expected.sizes());
    EXPECT_TRUE(((tokens - expected).abs() <= rounding * magnitude).all().item<bool>())
        << (embed.prepared() ? "prepared, " : "trainable, ") << "patches of " << patch << " in "
        << type << ", strides " << pixels.strides() << ", offset " << pixels.storage_offset();
  }
};

TEST_F(PatchEmbedTest, TokensAreProductsOfThePublishedPatches) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t patch : {2, 4, 8, 16}) {
      PatchEmbed embed(patch, kChannels);
      embed.eval();
      auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
      for (at::Tensor& parameter : embed.parameters()) parameter.normal_(0, 0.1, generator);
      const at::Tensor weight = embed.parameters()[0].clone(), bias = embed.parameters()[1].clone();
      const at::Tensor pixels = at::randn({3, 3, 2 * patch, 3 * patch}, generator);
      const at::Tensor wider = at::randn({3, 3, 2 * patch, 3 * patch + 1}, generator);
      const at::Tensor longer = at::randn({pixels.numel() + 1}, generator);
      const at::Tensor maps[] = {
          pixels,
          pixels.contiguous(at::MemoryFormat::ChannelsLast),
          pixels.slice(0, 1, 3),
          pixels.slice(0, 0, 0),
          wider.slice(3, 1),
          longer.slice(0, 1).view(pixels.sizes()),
          longer.as_strided({1, 3, 2 * patch, 3 * patch}, {1, 6 * patch * patch, 3 * patch, 1})};
      for (const at::Tensor& map : maps) Check(embed, weight, bias, map, at::kFloat);
      embed.Prepare({.dtype = type});
      for (const at::Tensor& map : maps) Check(embed, weight, bias, map, type);
    }
  }
}

// Tokens are the same where short rows are cut out and cast in one copy, which takes several times
// as long.
TEST(PatchEmbedCopiesTest, ShortRowsAreCastBeforeTheyAreCut) {
  const at::NoGradGuard no_grad;
  const auto copies = [](int64_t patch, c10::ScalarType type) {
    PatchEmbed embed(patch, kChannels);
    embed.Prepare({.dtype = type});
    const at::Tensor pixels = at::rand({1, 3, 2 * patch, 2 * patch});
    return CalledOperators([&] { embed.forward(pixels); }).count("aten::copy_");
  };
  for (const int64_t patch : {4, 8}) {
    EXPECT_EQ(copies(patch, at::kBFloat16), copies(patch, at::kFloat) + 1) << patch;
  }
  EXPECT_EQ(copies(16, at::kBFloat16), copies(16, at::kFloat));
}

}  // namespace
}  // namespace fovea::models
