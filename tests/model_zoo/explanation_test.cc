// Explanations of small models with random weights: what the maps are reduced to, and what is
// refused. tests/conformance/test_served_explanations.py compares whole attributions with another
// implementation.
#include "model_zoo/explain/explanation.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model_zoo/layers/grid.h"
#include "model_zoo/registry/backbones.h"

namespace fovea::models {
namespace {

using ::testing::HasSubstr;
using Refusal = Explanation::Refusal;

at::Tensor Random(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed));
}

std::shared_ptr<Backbone> Tiny(const std::string& name, const std::string& attention = "",
                               int64_t side = 112) {
  ModelDescription description{
      .backbone = name, .num_classes = 7, .image_height = side, .image_width = side};
  if (!attention.empty()) description.attention = {attention};
  std::shared_ptr<Backbone> backbone = FindBackbone(name)->make_tiny(description);
  const at::NoGradGuard no_grad;
  backbone->Initialise(1);
  // Logits of trained models are far from zero; those of a start are not.
  for (auto& parameter : backbone->named_parameters()) {
    if (parameter.value().dim() > 1) parameter.value().mul_(8);
  }
  backbone->eval();
  return backbone;
}

at::Tensor Pixels(int64_t side = 112) { return Random({1, 3, side, side}, 5); }

// Every map of a pass, and what its backbone gives.
class AllMaps final : public ForwardContext {
 public:
  explicit AllMaps(bool differentiates) : differentiates_(differentiates) {}
  bool Recording() const override { return true; }
  bool WantsMaps() const override { return true; }
  bool DifferentiatesMaps() const override { return differentiates_; }
  bool WantsMap(std::string_view, int64_t heads, const Grid&) override {
    heads_.push_back(heads);
    return true;
  }
  void RecordMap(std::string_view, const at::Tensor& weights, const Grid& grid) override {
    EXPECT_EQ(weights.size(1), heads_.back());
    maps.push_back(weights.detach()[0]);
    grids.push_back(grid);
  }
  std::vector<at::Tensor> maps;
  std::vector<Grid> grids;

 private:
  const bool differentiates_;
  std::vector<int64_t> heads_;
};

// Matrices of 2 x 2, one behind the other.
at::Tensor Matrices(std::vector<double> numbers) { return at::tensor(numbers).view({-1, 2, 2}); }
at::Tensor Matrix(std::vector<double> numbers) { return Matrices(std::move(numbers))[0]; }

TEST(RollOutTest, HalfOfATokenPassesByTheAttention) {
  const at::Tensor weights = Matrices({0.5, 0.5, 1.0, 0.0, /*the other head*/ 0.1, 0.9, 0.6, 0.4});
  // Mean over heads [[0.3, 0.7], [0.8, 0.2]]; with the identity, halved [[0.65, 0.35], [0.4, 0.6]].
  const at::Tensor behind = Matrix({1.0, 0.0, 0.5, 0.5});
  const at::Tensor expected = Matrix({0.825, 0.175, 0.7, 0.3});
  EXPECT_LT((RollOut(weights, behind) - expected).abs().max().item<double>(), 1e-12);
}

TEST(FollowGradientsTest, OnlyWhatSpeaksForTheClassCounts) {
  const at::Tensor gradient = Matrices({1.0, -1.0, 2.0, 0.0, 0.0, 3.0, -1.0, 1.0});
  const at::Tensor relevance = Matrices({0.5, 0.5, 0.25, 1.0, 1.0, 0.2, 0.4, 0.6});
  // Positive products [[0.5, 0], [0.5, 0]] and [[0, 0.6], [0, 0.6]], mean [[0.25, 0.3], [0.25,
  // 0.3]].
  const at::Tensor behind = Matrix({1.0, 0.0, 1.0, 1.0});
  const at::Tensor expected = Matrix({1.55, 0.3, 1.55, 1.3});
  EXPECT_LT((FollowGradients(gradient, relevance, behind) - expected).abs().max().item<double>(),
            1e-12);
}

TEST(ExplanationTest, RolloutIsTheProductOfTheLayersAndItsRowsSumToOne) {
  const auto vit = Tiny("deit_tiny_patch16_224");
  AllMaps all(/*differentiates=*/false);
  const at::NoGradGuard no_grad;
  vit->forward(Pixels(), all);
  ASSERT_EQ(all.maps.size(), 2u);
  const int64_t tokens = 50;
  at::Tensor behind = at::eye(tokens);
  for (const at::Tensor& map : all.maps) {
    ASSERT_EQ(map.size(2), tokens);
    at::Tensor step = map.mean(0) + at::eye(tokens);
    step = step / step.sum(1, /*keepdim=*/true);
    behind = at::matmul(step, behind);
  }
  EXPECT_LT((behind.sum(1) - 1).abs().max().item<double>(), 1e-5);
  const Explanation explanation = Explain(*vit, Pixels(), {.rollout = true});
  ASSERT_EQ(explanation.refusal, Refusal::kNone) << explanation.why;
  const at::Tensor shown = explanation.rollout->weights;
  ASSERT_EQ(shown.sizes(), (std::vector<int64_t>{1, 7, 7}));
  const at::Tensor expected = behind[0].narrow(0, 1, 49).view({1, 7, 7});
  EXPECT_LT((shown - expected).abs().max().item<double>(), 1e-6);
}

TEST(ExplanationTest, MapsAreTheQuerysRowOfEachLayer) {
  const auto vit = Tiny("deit_tiny_patch16_224", "knn:k=5");
  AllMaps all(/*differentiates=*/false);
  const at::NoGradGuard no_grad;
  vit->forward(Pixels(), all);
  const Explanation cls = Explain(*vit, Pixels(), {.maps = true});
  // In the middle of the row of patches 2, column 5.
  const Explanation patch = Explain(*vit, Pixels(), {.maps = true, .place = {{2.5 / 7, 5.5 / 7}}});
  ASSERT_EQ(cls.maps.size(), 2u);
  for (size_t layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(cls.maps[layer].layer, "blocks." + std::to_string(layer));
    const at::Tensor map = all.maps[layer];  // [heads, 50, 50]
    const auto row = [&](int64_t query) {
      return map.select(1, query).narrow(1, 1, 49).unflatten(1, {7, 7});
    };
    EXPECT_TRUE(at::equal(cls.maps[layer].weights, row(0)));
    EXPECT_TRUE(at::equal(patch.maps[layer].weights, row(1 + 2 * 7 + 5)));
    // The kept keys: five of each head's, the class token perhaps among them.
    EXPECT_LE(cls.maps[layer].weights.gt(0).sum({1, 2}).max().item<int64_t>(), 5);
    EXPECT_GE(cls.maps[layer].weights.gt(0).sum({1, 2}).min().item<int64_t>(), 1);
  }
}

TEST(ExplanationTest, WithoutAClassTokenTheMeanOverAllPatchesIsShown) {
  const auto swin = Tiny("swin_tiny_patch4_window7_224");
  AllMaps all(/*differentiates=*/false);
  const at::NoGradGuard no_grad;
  swin->forward(Pixels(), all);
  const Explanation explanation = Explain(*swin, Pixels(), {.maps = true});
  ASSERT_EQ(explanation.maps.size(), all.maps.size());
  for (size_t layer = 0; layer < all.maps.size(); ++layer) {
    const Grid& grid = all.grids[layer];
    EXPECT_TRUE(at::allclose(explanation.maps[layer].weights,
                             all.maps[layer].mean(1).unflatten(1, {grid.height, grid.width})));
  }
  EXPECT_GT(all.grids.front().height, all.grids.back().height);
}

// Where gradients of maps can be taken, the pass through the maps is the pass.
TEST(ExplanationTest, APassThroughTheMapsGivesTheSameAnswer) {
  const std::pair<const char*, const char*> kCases[] = {
      {"deit_tiny_patch16_224", "dense"},
      {"deit_tiny_patch16_224", "knn:k=0.5"},
      {"deit_tiny_patch16_224", "ska"},
      {"deit_tiny_patch16_224", "ska:activation=gelu"},
      {"deit_tiny_patch16_224", "cska"},
      {"deit_tiny_patch16_224", "key_only"},
      {"deit_tiny_distilled_patch16_224", "ska"},
      {"cait_s24_224", ""},
      {"cait_s24_224", "criss_cross"},
      {"tnt_s_patch16_224", ""},
      {"t2t_vit_t_19", ""}};
  for (const auto& [name, attention] : kCases) {
    if (FindBackbone(name) == nullptr) ADD_FAILURE() << name;
    const auto backbone = Tiny(name, attention);
    for (at::Tensor& parameter : backbone->parameters()) parameter.requires_grad_(false);
    ForwardContext plain;
    const at::Tensor expected = backbone->forward(Pixels(), plain).at(0);
    AllMaps through(/*differentiates=*/true);
    const at::Tensor logits = backbone->forward(Pixels(), through).at(0);
    EXPECT_FALSE(through.maps.empty()) << name;
    EXPECT_TRUE(logits.requires_grad()) << name << " " << attention;
    EXPECT_LT((logits.detach() - expected).abs().max().item<double>(),
              1e-4 * expected.abs().max().item<double>())
        << name << " " << attention;
  }
}

TEST(ExplanationTest, BothFormsOfAttributionFollowTheClass) {
  const auto vit = Tiny("deit_tiny_patch16_224", "knn:k=0.5");
  const auto of = [&](std::optional<int64_t> target) {
    return Explain(*vit, Pixels(),
                   {.attribution = true, .gradient_rollout = true, .target = target});
  };
  const Explanation best = of(std::nullopt), other = of(3);
  ASSERT_EQ(best.refusal, Refusal::kNone) << best.why;
  ForwardContext plain;
  const at::Tensor logits = vit->forward(Pixels(), plain).at(0)[0].detach();
  EXPECT_EQ(*best.target, logits.argmax().item<int64_t>());
  EXPECT_NEAR(other.probability, logits.softmax(0)[3].item<double>(), 1e-5);
  for (const auto& shown : {best.attribution, best.gradient_rollout}) {
    ASSERT_TRUE(shown.has_value());
    EXPECT_EQ(shown->weights.sizes(), (std::vector<int64_t>{1, 7, 7}));
    EXPECT_GE(shown->weights.min().item<double>(), 0);
    EXPECT_GT(shown->weights.max().item<double>(), 0);
  }
  ASSERT_NE(*best.target, 3);
  EXPECT_FALSE(at::allclose(best.attribution->weights, other.attribution->weights));
  EXPECT_FALSE(at::allclose(best.gradient_rollout->weights, other.gradient_rollout->weights));
  // The class itself is the same as when it is found.
  EXPECT_TRUE(at::equal(of(*best.target).attribution->weights, best.attribution->weights));
}

TEST(ExplanationTest, WhatIsNotDefinedForAModelIsRefusedInWords) {
  struct Case {
    const char* backbone;
    const char* attention;
    ExplainOptions options;
    const char* why;
  };
  const ExplainOptions rollout{.rollout = true}, attribution{.attribution = true},
      gradient{.gradient_rollout = true};
  const Case kCases[] = {
      {"swin_tiny_patch4_window7_224", "", rollout, "28x28 tokens and, in "},
      {"swin_tiny_patch4_window7_224", "", gradient, "28x28 tokens and, in "},
      {"resnet50", "", rollout, "has no attention weights"},
      {"deit_tiny_patch16_224", "ska:activation=gelu", rollout, "no shares of a whole"},
      {"deit_tiny_patch16_224", "ska", attribution, "blocks.1 is no plain block of self-attention"},
      {"deit_tiny_distilled_patch16_224", "", attribution, "does not read the class token alone"},
      {"cait_s24_224", "", attribution, "class token"},
      {"cait_s24_224", "axial", gradient, "do not say all that its attention does"},
  };
  for (const Case& one : kCases) {
    const auto backbone = Tiny(one.backbone, one.attention);
    const Explanation explanation = Explain(*backbone, Pixels(), one.options);
    EXPECT_EQ(explanation.refusal, Refusal::kUnfit) << one.backbone << " " << one.attention;
    EXPECT_THAT(explanation.why, HasSubstr(one.why)) << one.backbone << " " << one.attention;
    EXPECT_THAT(explanation.why, HasSubstr(one.backbone));
  }
}

TEST(ExplanationTest, WhatIsRefusedByAttributionTheGradientsCanMostlyFollow) {
  for (const char* attention : {"ska", "key_only", "cska"}) {
    const auto vit = Tiny("deit_tiny_patch16_224", attention);
    const Explanation explanation = Explain(*vit, Pixels(), {.gradient_rollout = true});
    EXPECT_EQ(explanation.refusal, Refusal::kNone) << attention << ": " << explanation.why;
  }
}

TEST(ExplanationTest, AMapThatIsTooLargeIsNotMade) {
  const auto vit = Tiny("deit_tiny_patch16_224");
  // 3 heads, 50 tokens, 4 bytes, 8 numbers while it is made.
  constexpr int64_t kBytes = int64_t{3} * 50 * 50 * 4 * 8;
  EXPECT_EQ(Explain(*vit, Pixels(), {.maps = true, .max_bytes = kBytes}).refusal, Refusal::kNone);
  const Explanation refused = Explain(*vit, Pixels(), {.maps = true, .max_bytes = kBytes - 1});
  EXPECT_EQ(refused.refusal, Refusal::kTooLarge);
  EXPECT_THAT(refused.why, HasSubstr("blocks.0 has 3 heads over 7x7 and 1 tokens"));
  EXPECT_TRUE(refused.maps.empty());
  // Gradients hold the first layer's beside the second's.
  EXPECT_EQ(Explain(*vit, Pixels(), {.gradient_rollout = true, .max_bytes = kBytes}).refusal,
            Refusal::kTooLarge);
  EXPECT_EQ(Explain(*vit, Pixels(), {.gradient_rollout = true, .max_bytes = 2 * kBytes}).refusal,
            Refusal::kNone);
}

TEST(ExplanationTest, ItEndsBetweenTwoBlocksWhenNobodyWaits) {
  const auto vit = Tiny("deit_tiny_patch16_224");
  int asked = 0;
  const Explanation explanation =
      Explain(*vit, Pixels(), {.maps = true, .stop = [&] { return ++asked == 2; }});
  EXPECT_EQ(explanation.refusal, Refusal::kStopped);
  EXPECT_EQ(asked, 2);
}

// Forwards, along the gradients, and along each of the ways back: a block lasts longest.
TEST(ExplanationTest, ItEndsBetweenTwoBlocksOfEachWay) {
  ExplainOptions options{.rollout = true, .attribution = true, .gradient_rollout = true};
  int asked = 0;
  options.stop = [&] { return ++asked, false; };
  ASSERT_EQ(Explain(*Tiny("deit_tiny_patch16_224"), Pixels(), options).refusal, Refusal::kNone);
  const int all = asked;
  constexpr int kBlocks = 2;
  EXPECT_GE(all, 5 * kBlocks) << "forwards, gradients, gradient rollout, relevance, attribution";
  for (int stop_at = 1; stop_at <= all; ++stop_at) {
    asked = 0;
    options.stop = [&] { return ++asked >= stop_at; };
    EXPECT_EQ(Explain(*Tiny("deit_tiny_patch16_224"), Pixels(), options).refusal,
              Refusal::kStopped);
    EXPECT_EQ(asked, stop_at) << "nothing goes on after it";
  }
}

TEST(ExplanationTest, MeasuresComeWithTheMaps) {
  const auto swin = Tiny("swin_tiny_patch4_window7_224");
  const Explanation explanation = Explain(*swin, Pixels(), {.measures = true});
  EXPECT_TRUE(explanation.maps.empty());
  ASSERT_FALSE(explanation.measures.empty());
  MeasuringContext measuring;
  const at::NoGradGuard no_grad;
  swin->forward(Pixels(), measuring);
  ASSERT_EQ(explanation.measures.size(), measuring.layers().size());
  for (size_t i = 0; i < measuring.layers().size(); ++i) {
    EXPECT_TRUE(at::equal(explanation.measures[i].nonlocality, measuring.layers()[i].nonlocality));
  }
}

}  // namespace
}  // namespace fovea::models
