// The modules with static keys and the separable convolution, against their formulas in plain ATen.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/factory.h"
#include "model_zoo/attention/registry/attentions.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<AttentionModule> Make(const std::string& text, const ModuleSite& site) {
  const AttentionFactory factory(
      Attentions(), AttentionSpec::Parse(text, Attentions()), "a test",
      [](const AttentionSpec&, const ModuleSite&, const AttentionFactory&) {
        return std::shared_ptr<AttentionModule>();
      });
  return factory.Module(site);
}

// The same module with numbers, and these by name.
struct Filled {
  Filled(const std::string& text, const ModuleSite& site) : module(Make(text, site)) {
    const at::NoGradGuard no_grad;
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(3);
    for (auto& parameter : module->named_parameters()) {
      parameter.value().normal_(0, 0.4, generator);
      weights.emplace(parameter.key(), parameter.value().detach().clone());
    }
  }

  at::Tensor Linear(const std::string& name, const at::Tensor& input) const {
    const auto bias = weights.find(name + ".bias");
    return at::linear(input, weights.at(name + ".weight").flatten(1),
                      bias == weights.end() ? std::nullopt : std::optional(bias->second));
  }

  // What the module makes of tokens, in both of its states, and its map as weights of `values`.
  void ExpectForward(const at::Tensor& tokens, const Grid& grid, const at::Tensor& expected) const {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::allclose(module->forward(tokens, grid), expected, 1e-4, 1e-5));
    module->Prepare({});
    EXPECT_TRUE(at::allclose(module->forward(tokens, grid), expected, 1e-4, 1e-5));
  }

  std::shared_ptr<AttentionModule> module;
  std::map<std::string, at::Tensor> weights;
};

at::Tensor Tokens(const Grid& grid, int64_t channels, int64_t images = 2) {
  return at::randn({images, grid.tokens(), channels}, at::make_generator<at::CPUGeneratorImpl>(5));
}

at::Tensor Split(const at::Tensor& tokens, int64_t heads) {
  return tokens.unflatten(2, {heads, -1}).transpose(1, 2);
}
at::Tensor Joined(const at::Tensor& heads) { return heads.transpose(1, 2).flatten(2); }

at::Tensor Activated(const std::string& activation, const at::Tensor& logits) {
  if (activation == "gelu") return at::gelu(logits);
  if (activation == "relu") return at::relu(logits);
  if (activation == "star_relu") return 0.8944 * at::relu(logits).square() - 0.4472;
  return at::softmax(logits, -1);
}

// Algorithm 1, on one set of tokens.
at::Tensor StaticKeyWeights(const Filled& filled, const at::Tensor& tokens,
                            const std::string& activation, double scale) {
  const at::Tensor& key = filled.weights.at("k");
  return Activated(activation,
                   at::matmul(Split(filled.Linear("q", tokens), key.size(0)), key.mT()) * scale);
}
at::Tensor StaticKeyFormula(const Filled& filled, const at::Tensor& tokens,
                            const std::string& activation, double scale) {
  const at::Tensor weights = StaticKeyWeights(filled, tokens, activation, scale);
  return filled.Linear(
      "proj", Joined(at::matmul(weights, Split(filled.Linear("v", tokens), weights.size(1)))));
}

// Section 4.2, position by position: logit (n, m) is the sum over the neighbours of n that lie on
// the map. The class token is a map of its own.
at::Tensor ConvStaticKeyFormula(const Filled& filled, const at::Tensor& tokens, const Grid& grid,
                                int64_t heads, const std::string& activation, double scale) {
  const at::Tensor qv = filled.Linear("to_qv", tokens);
  const int64_t channels = tokens.size(2), places = grid.height * grid.width;
  const int64_t prefix = grid.prefix_tokens;
  const at::Tensor query = Split(qv.narrow(2, 0, channels), heads);
  const at::Tensor value = Split(qv.narrow(2, channels, channels), heads);
  const at::Tensor taps = filled.weights.at("to_k.weight").unflatten(0, {heads, places});
  at::Tensor logits = filled.weights.at("to_k.bias")
                          .view({1, heads, 1, places})
                          .expand({tokens.size(0), heads, prefix + places, places})
                          .clone();
  // [B, heads, head_dim] x [heads, places, head_dim] -> [B, heads, places]
  const auto product = [&](int64_t token, int64_t dy, int64_t dx) {
    const at::Tensor tap = taps.select(4, dx + 1).select(3, dy + 1);
    return at::matmul(tap, query.select(2, token).unsqueeze(3)).squeeze(3);
  };
  for (int64_t token = 0; token < prefix; ++token) logits.select(2, token) += product(token, 0, 0);
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t tap = 0; tap < 9; ++tap) {
      const int64_t dy = tap / 3 - 1, dx = tap % 3 - 1;
      const int64_t y = place / grid.width + dy, x = place % grid.width + dx;
      if (y < 0 || y >= grid.height || x < 0 || x >= grid.width) continue;
      logits.select(2, prefix + place) += product(prefix + y * grid.width + x, dy, dx);
    }
  }
  if (prefix == 1)
    logits = at::cat({at::matmul(query, filled.weights.at("cls_k").mT()), logits}, 3);
  const at::Tensor weights = Activated(activation, logits * scale);
  return filled.Linear("to_out.0", Joined(at::matmul(weights, value)));
}

TEST(StaticKeyTest, IsAlgorithmOneScaled) {
  for (const int64_t prefix : {0, 1, 2}) {
    const Grid grid{.height = 3, .width = 4, .prefix_tokens = prefix};
    const Filled filled("ska", {.channels = 24, .heads = 3, .grid = grid});
    const at::Tensor tokens = Tokens(grid, 24);
    filled.ExpectForward(tokens, grid,
                         StaticKeyFormula(filled, tokens, "softmax", 1 / std::sqrt(8.0)));
  }
}

TEST(StaticKeyTest, TakesItsOptions) {
  const Grid grid{.height = 3, .width = 3};
  const at::Tensor tokens = Tokens(grid, 24);
  for (const char* activation : {"gelu", "relu", "star_relu"}) {
    const Filled filled(std::string("ska:heads=2,scale=0.25,activation=") + activation,
                        {.channels = 24, .heads = 3, .grid = grid, .qkv_bias = false});
    EXPECT_EQ(filled.weights.at("k").sizes(), (at::IntArrayRef{2, 9, 12}));
    EXPECT_FALSE(filled.weights.contains("q.bias"));
    filled.ExpectForward(tokens, grid, StaticKeyFormula(filled, tokens, activation, 0.25));
  }
}

TEST(StaticKeyTest, ItsMapIsItsWeights) {
  const Grid grid{.height = 2, .width = 3, .prefix_tokens = 1};
  const Filled filled("ska", {.channels = 16, .heads = 2, .grid = grid});
  const at::Tensor tokens = Tokens(grid, 16);
  EXPECT_TRUE(at::allclose(filled.module->Map(tokens, grid),
                           StaticKeyWeights(filled, tokens, "softmax", 1 / std::sqrt(8.0))));
}

TEST(ConvStaticKeyTest, IsTheSectionsFormula) {
  for (const int64_t prefix : {0, 1}) {
    const Grid grid{.height = 3, .width = 4, .prefix_tokens = prefix};
    const Filled filled("cska", {.channels = 24, .heads = 3, .grid = grid});
    EXPECT_EQ(filled.weights.contains("cls_k"), prefix == 1);
    EXPECT_FALSE(filled.weights.contains("to_qv.bias"));
    const at::Tensor tokens = Tokens(grid, 24);
    filled.ExpectForward(
        tokens, grid, ConvStaticKeyFormula(filled, tokens, grid, 3, "softmax", 1 / std::sqrt(8.0)));
  }
}

TEST(ConvStaticKeyTest, TakesItsOptions) {
  const Grid grid{.height = 3, .width = 2, .prefix_tokens = 1};
  const at::Tensor tokens = Tokens(grid, 24);
  for (const char* activation : {"gelu", "relu", "star_relu"}) {
    const Filled filled(std::string("cska:heads=2,scale=0.25,activation=") + activation,
                        {.channels = 24, .heads = 3, .grid = grid, .proj_bias = false});
    filled.ExpectForward(tokens, grid,
                         ConvStaticKeyFormula(filled, tokens, grid, 2, activation, 0.25));
  }
}

TEST(ConvStaticKeyTest, ItsMapTimesTheValuesIsItsOutput) {
  const Grid grid{.height = 3, .width = 2, .prefix_tokens = 1};
  const Filled filled("cska", {.channels = 16, .heads = 2, .grid = grid});
  const at::Tensor tokens = Tokens(grid, 16);
  const at::Tensor value = Split(filled.Linear("to_qv", tokens).narrow(2, 16, 16), 2);
  const at::Tensor mixed = at::matmul(filled.module->Map(tokens, grid), value);
  EXPECT_TRUE(at::allclose(filled.Linear("to_out.0", Joined(mixed)),
                           filled.module->forward(tokens, grid), 1e-4, 1e-5));
}

// Calls `attend` on each window of height x width tokens of a map that is padded until they divide
// it, rolled by `shift` on both axes: index by index.
template <typename Attend>
at::Tensor InWindows(const at::Tensor& tokens, const Grid& grid, std::array<int64_t, 2> window,
                     int64_t shift, Attend attend) {
  const auto up = [](int64_t size, int64_t side) { return (size + side - 1) / side * side; };
  const int64_t height = up(grid.height, window[0]), width = up(grid.width, window[1]);
  const at::Tensor map =
      at::constant_pad_nd(tokens.unflatten(1, {grid.height, grid.width}),
                          {0, 0, 0, width - grid.width, 0, height - grid.height});
  at::Tensor output = at::zeros_like(map);
  for (int64_t top = 0; top < height; top += window[0]) {
    for (int64_t left = 0; left < width; left += window[1]) {
      std::vector<int64_t> places;
      for (int64_t i = 0; i < window[0] * window[1]; ++i) {
        const int64_t y = (top + i / window[1] + shift) % height;
        const int64_t x = (left + i % window[1] + shift) % width;
        places.push_back(y * width + x);
      }
      const at::Tensor index = at::tensor(places);
      output.flatten(1, 2).index_copy_(1, index, attend(map.flatten(1, 2).index_select(1, index)));
    }
  }
  return output.narrow(1, 0, grid.height).narrow(2, 0, grid.width).flatten(1, 2);
}

// Both modules at `site`, and their formulas within such windows.
void ExpectWindows(const ModuleSite& site, std::array<int64_t, 2> window, int64_t shift) {
  const at::Tensor tokens = Tokens(site.grid, site.channels);
  const double scale = 1 / std::sqrt(static_cast<double>(site.channels / site.heads));
  const Filled ska("ska", site);
  EXPECT_EQ(ska.weights.at("k").sizes(),
            (at::IntArrayRef{site.heads, window[0] * window[1], site.channels / site.heads}));
  ska.ExpectForward(tokens, site.grid,
                    InWindows(tokens, site.grid, window, shift, [&](const at::Tensor& one) {
                      return StaticKeyFormula(ska, one, "softmax", scale);
                    }));
  const Filled cska("cska", site);
  const Grid places{.height = window[0], .width = window[1]};
  cska.ExpectForward(tokens, site.grid,
                     InWindows(tokens, site.grid, window, shift, [&](const at::Tensor& one) {
                       return ConvStaticKeyFormula(cska, one, places, site.heads, "softmax", scale);
                     }));
}

TEST(StaticKeyTest, StaysWithinTheBackbonesWindows) {
  const Grid grid{.height = 5, .width = 6};
  for (const int64_t block : {0, 1}) {
    ExpectWindows(
        {.channels = 16, .heads = 2, .grid = grid, .block = block, .window = 3, .windowed = true},
        {3, 3}, /*shift=*/block);
  }
}

// Maps that they divide, that they do not, that are smaller, and the map that they were trained
// for.
TEST(StaticKeyTest, AttendsWithinWindowsOfTheMapThatItWasTrainedFor) {
  const Grid trained{.height = 3, .width = 4};
  for (const Grid& grid :
       {Grid{.height = 6, .width = 8}, Grid{.height = 7, .width = 9}, Grid{.height = 2, .width = 3},
        Grid{.height = 2, .width = 11}, trained}) {
    SCOPED_TRACE(std::to_string(grid.height) + "x" + std::to_string(grid.width));
    for (const int64_t block : {0, 1}) {
      ExpectWindows({.channels = 16, .heads = 2, .grid = grid, .block = block, .trained = trained},
                    {3, 4},
                    /*shift=*/0);
    }
  }
}

TEST(StaticKeyTest, TheMapOfWindowsIsZeroBetweenThem) {
  const Grid grid{.height = 4, .width = 6};
  const Filled filled(
      "ska", {.channels = 16, .heads = 2, .grid = grid, .block = 1, .window = 2, .windowed = true});
  const at::Tensor tokens = Tokens(grid, 16);
  const at::Tensor map = filled.module->Map(tokens, grid);
  ASSERT_EQ(map.sizes(), (at::IntArrayRef{2, 2, 24, 24}));
  EXPECT_TRUE(at::equal(map.gt(0).sum(3), at::full({2, 2, 24}, 4, at::kLong)));
  const at::Tensor mixed = at::matmul(map, Split(filled.Linear("v", tokens), 2));
  EXPECT_TRUE(at::allclose(filled.Linear("proj", Joined(mixed)),
                           filled.module->forward(tokens, grid), 1e-4, 1e-5));
}

TEST(StaticKeyTest, AMapThatIsOneWindowIsNotRolled) {
  const Grid grid{.height = 3, .width = 3};
  const Filled filled(
      "ska", {.channels = 16, .heads = 2, .grid = grid, .block = 1, .window = 7, .windowed = true});
  const at::Tensor tokens = Tokens(grid, 16);
  filled.ExpectForward(tokens, grid,
                       StaticKeyFormula(filled, tokens, "softmax", 1 / std::sqrt(8.0)));
}

TEST(StaticKeyTest, GradientsReachTheKeys) {
  const Grid grid{.height = 3, .width = 3, .prefix_tokens = 1};
  for (const char* text : {"ska", "cska"}) {
    const Filled filled(text, {.channels = 16, .heads = 2, .grid = grid});
    filled.module->forward(Tokens(grid, 16), grid).square().sum().backward();
    for (const auto& parameter : filled.module->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << text << " " << parameter.key();
      EXPECT_GT(parameter.value().grad().abs().max().item<float>(), 0) << parameter.key();
    }
  }
}

TEST(StaticKeyTest, WhatCannotStandIsRefusedInWords) {
  const Grid map{.height = 3, .width = 3}, one{.height = 3, .width = 3, .prefix_tokens = 1},
      two{.height = 3, .width = 3, .prefix_tokens = 2};
  const auto error = [](const std::string& text, const Grid& grid) {
    return ErrorOf([&] { Make(text, {.channels = 24, .heads = 3, .grid = grid}); });
  };
  EXPECT_THAT(error("ska:heads=5", map), HasSubstr("24 channels do not divide by 5 heads"));
  EXPECT_THAT(error("cska:heads=5", map), HasSubstr("24 channels do not divide by 5 heads"));
  EXPECT_THAT(error("cska", two), HasSubstr("this backbone has 2"));
  EXPECT_THAT(error("conv", one), HasSubstr("this backbone has 1"));
  EXPECT_EQ(error("ska", two), "no error");
  EXPECT_EQ(error("conv", map), "no error");
}

TEST(StaticKeyTest, AKeyOfAnotherSizeIsRefusedUnlessItMayBeInterpolated) {
  const Grid grid{.height = 3, .width = 2, .prefix_tokens = 1};
  const ModuleSite site{.channels = 16, .heads = 2, .grid = grid};
  const auto stored = at::randn({2, 17, 8});
  const auto fixed = Make("ska", site);
  EXPECT_THAT(
      ErrorOf([&] { fixed->Resized("k", stored); }),
      HasSubstr(
          "was trained for 17 tokens, this input size has 7 on a map of 3x2: ask for another size "
          "with the option 'interpolate'"));
  // As many places on another map.
  const auto oblong = Make(
      "ska", {.channels = 16, .heads = 2, .grid = {.height = 2, .width = 8, .prefix_tokens = 1}});
  EXPECT_THAT(ErrorOf([&] { oblong->Resized("k", stored); }),
              HasSubstr("this input size has 17 on a map of 2x8"));
  const at::Tensor of_other_heads = at::randn({4, 17, 4});
  EXPECT_TRUE(fixed->Resized("k", of_other_heads).is_same(of_other_heads));

  const at::Tensor resized = Make("ska:interpolate", site)->Resized("k", stored);
  ASSERT_EQ(resized.sizes(), (at::IntArrayRef{2, 7, 8}));
  EXPECT_TRUE(at::equal(resized.narrow(1, 0, 1), stored.narrow(1, 0, 1)));
  const at::Tensor places =
      at::_upsample_bicubic2d_aa(stored.narrow(1, 1, 16).mT().unflatten(2, {4, 4}), {3, 2},
                                 /*align_corners=*/false, std::nullopt, std::nullopt);
  EXPECT_TRUE(at::equal(resized.narrow(1, 1, 6), places.flatten(2).mT()));
}

TEST(ConvStaticKeyTest, TheChannelsOfAHeadAreInterpolatedAsPlaces) {
  const Grid grid{.height = 3, .width = 2, .prefix_tokens = 1};
  const ModuleSite site{.channels = 16, .heads = 2, .grid = grid};
  const auto convolution = [](const std::shared_ptr<AttentionModule>& module) {
    return std::dynamic_pointer_cast<Layer>(module->named_children()["to_k"]);
  };
  const at::Tensor weight = at::randn({32, 8, 3, 3}), bias = at::randn({32});
  EXPECT_THAT(ErrorOf([&] { convolution(Make("cska", site))->Resized("weight", weight); }),
              HasSubstr("was trained for 16 tokens, this input size has 6"));
  const auto layer = convolution(Make("cska:interpolate", site));
  const auto resize = [](const at::Tensor& map) {
    return at::_upsample_bicubic2d_aa(map, {3, 2}, /*align_corners=*/false, std::nullopt,
                                      std::nullopt);
  };
  // Tap (1, 2) of channel 5: a map of places for each head.
  const at::Tensor taps = weight.select(3, 2).select(2, 1).select(1, 5);
  const at::Tensor resized = layer->Resized("weight", weight);
  ASSERT_EQ(resized.sizes(), (at::IntArrayRef{12, 8, 3, 3}));
  EXPECT_TRUE(at::allclose(resized.select(3, 2).select(2, 1).select(1, 5),
                           resize(taps.view({1, 2, 4, 4})).flatten()));
  EXPECT_TRUE(
      at::allclose(layer->Resized("bias", bias), resize(bias.view({1, 2, 4, 4})).flatten()));
}

TEST(SeparableConvolutionTest, IsMetaFormersSepConv) {
  const Grid grid{.height = 5, .width = 4};
  const Filled filled("conv", {.channels = 8, .heads = 2, .grid = grid});
  const at::Tensor tokens = Tokens(grid, 8);
  at::Tensor x = filled.Linear("pwconv1", tokens);
  x = filled.weights.at("act1.scale") * at::relu(x).square() + filled.weights.at("act1.bias");
  x = at::conv2d(x.mT().unflatten(2, {5, 4}), filled.weights.at("dwconv.weight"), {}, /*stride=*/1,
                 /*padding=*/3, /*dilation=*/1, /*groups=*/16);
  EXPECT_FALSE(filled.module->Map(tokens, grid).defined());
  filled.ExpectForward(tokens, grid, filled.Linear("pwconv2", x.flatten(2).mT()));
}

}  // namespace
}  // namespace fovea::models
