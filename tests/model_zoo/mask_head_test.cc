// The masks' last convolution, of which each region's own class alone is made, beside the whole.
#include "model_zoo/heads/mask_head.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/memory/memory_ledger.h"

namespace fovea::models {
namespace {

using testing::ElementsAre;

constexpr int64_t kChannels = 16;
constexpr int64_t kRegions = 9;

std::shared_ptr<MaskPredictor> Predictor(int64_t classes) {
  auto predictor = std::make_shared<MaskPredictor>(kChannels, classes);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const at::NoGradGuard no_grad;
  // So that no number behind it is larger than two.
  for (at::Tensor& parameter : predictor->parameters()) {
    parameter.uniform_(-1.0 / kChannels, 1.0 / kChannels, generator);
  }
  return predictor;
}

at::Tensor Regions() {
  return at::rand({kRegions, kChannels, MaskHead::kSide, MaskHead::kSide},
                  at::make_generator<at::CPUGeneratorImpl>(2));
}

// The first class, the last one, one twice and one not at all, in no order.
at::Tensor Labels(int64_t classes) {
  const at::Tensor labels = (at::arange(kRegions) * 5 + 4).remainder(std::max(classes - 1, 1L));
  labels[0] = classes - 1;
  labels[1] = 0;
  return labels;
}

struct Weights {
  explicit Weights(const MaskPredictor& predictor) {
    const auto all = predictor.named_parameters();
    up = all["conv5_mask.weight"];
    up_bias = all["conv5_mask.bias"];
    logits = all["mask_fcn_logits.weight"];
    logits_bias = all["mask_fcn_logits.bias"];
  }
  at::Tensor Doubled(const at::Tensor& regions) const {
    return at::conv_transpose2d(regions, up, up_bias, {2, 2}).relu();
  }

  at::Tensor up, up_bias, logits, logits_bias;
};

// Of logits of all classes [K, classes, ...], those of each region's own.
at::Tensor Own(const at::Tensor& all, const at::Tensor& labels) {
  return all.index({at::arange(labels.size(0)), labels});
}

struct Case {
  int64_t classes;
  at::MemoryFormat format;
};

class MaskPredictorTest : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, MaskPredictorTest,
                         testing::Values(Case{1, at::MemoryFormat::Contiguous},
                                         Case{2, at::MemoryFormat::ChannelsLast},
                                         Case{80, at::MemoryFormat::Contiguous},
                                         Case{80, at::MemoryFormat::ChannelsLast},
                                         Case{3000, at::MemoryFormat::ChannelsLast}));

TEST_P(MaskPredictorTest, EachRegionHasTheLogitsThatTheWholeConvolutionGivesItsClass) {
  const auto& [classes, format] = GetParam();
  const at::NoGradGuard no_grad;
  const auto predictor = Predictor(classes);
  const at::Tensor regions = Regions().contiguous(format), labels = Labels(classes);
  const Weights weights(*predictor);
  const at::Tensor doubled = weights.Doubled(regions);
  const at::Tensor expected = Own(at::conv2d(doubled, weights.logits, weights.logits_bias), labels);
  // Two orders of a sum whose terms have these sizes together.
  const at::Tensor sizes =
      Own(at::conv2d(doubled, weights.logits.abs(), weights.logits_bias.abs()), labels);
  const auto error = [&] {
    const at::Tensor found = predictor->forward(regions, labels);
    EXPECT_THAT(found.sizes(), ElementsAre(kRegions, MaskPredictor::kSide, MaskPredictor::kSide));
    return ((found - expected).abs() / sizes).max().item<double>();
  };
  constexpr double kBound = 2 * (kChannels + 1) * 0x1p-24;
  EXPECT_LE(error(), kBound);
  predictor->Prepare({});
  EXPECT_LE(error(), kBound);
}

TEST_P(MaskPredictorTest, InBf16AsNearAsItsRoundingAllows) {
  const auto& [classes, format] = GetParam();
  const at::NoGradGuard no_grad;
  const auto predictor = Predictor(classes);
  predictor->Prepare({.dtype = at::kBFloat16});
  const at::Tensor regions = Regions().to(at::kBFloat16).contiguous(format);
  const at::Tensor labels = Labels(classes);
  const Weights weights(*predictor);
  const at::Tensor doubled = weights.Doubled(regions).to(at::kFloat);
  const at::Tensor logits = weights.logits.to(at::kFloat);
  const at::Tensor bias = weights.logits_bias.to(at::kFloat);
  const at::Tensor exact = Own(at::conv2d(doubled, logits, bias), labels);
  const at::Tensor sizes = Own(at::conv2d(doubled, logits.abs(), bias.abs()), labels);
  const at::Tensor found = predictor->forward(regions, labels);
  EXPECT_EQ(found.scalar_type(), at::kBFloat16);
  // The product and its sum with the bias are rounded once each.
  constexpr double kBound = 2 * 0x1p-8 + 2 * (kChannels + 1) * 0x1p-24;
  EXPECT_LE(((found.to(at::kFloat) - exact).abs() / sizes).max().item<double>(), kBound);
}

TEST_P(MaskPredictorTest, ItsGradientsAreThoseOfTheWholeConvolution) {
  const auto& [classes, format] = GetParam();
  const at::Tensor labels = Labels(classes);
  const at::Tensor towards = at::rand({kRegions, MaskPredictor::kSide, MaskPredictor::kSide},
                                      at::make_generator<at::CPUGeneratorImpl>(3), at::kDouble);
  std::vector<at::Tensor> gradients[2];
  for (const bool whole : {false, true}) {
    const auto predictor = Predictor(classes);
    predictor->to(at::kDouble);
    const at::Tensor regions = Regions().to(at::kDouble).contiguous(format).requires_grad_();
    const Weights weights(*predictor);
    const at::Tensor found =
        whole
            ? Own(at::conv2d(weights.Doubled(regions), weights.logits, weights.logits_bias), labels)
            : predictor->forward(regions, labels);
    (found * towards).sum().backward();
    gradients[whole] = {regions.grad(), weights.up.grad(), weights.up_bias.grad(),
                        weights.logits.grad(), weights.logits_bias.grad()};
  }
  // n terms at most, none above two, and as many roundings.
  constexpr double kTerms = kRegions * MaskPredictor::kSide * MaskPredictor::kSide;
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    ASSERT_TRUE(gradients[0][i].defined()) << i;
    EXPECT_LE((gradients[0][i] - gradients[1][i]).abs().max().item<double>(),
              2 * kTerms * kTerms * 0x1p-53)
        << i;
    EXPECT_GT(gradients[1][i].abs().max().item<double>(), 1e-3) << i;
  }
  const at::Tensor asked = std::get<0>(at::_unique(labels));
  const at::Tensor others = at::ones({classes}, at::kBool).index_fill_(0, asked, 0);
  EXPECT_FALSE(gradients[0][3].flatten(1).any(1).logical_and(others).any().item<bool>())
      << "a class that nobody asks for learns nothing";
}

TEST(MaskPredictorMemoryTest, ItDoesNotGrowWithTheClasses) {
  const auto peak = [](int64_t classes) {
    const at::NoGradGuard no_grad;
    const auto predictor = Predictor(classes);
    predictor->Prepare({});
    const at::Tensor regions = Regions(), labels = Labels(classes);
    predictor->forward(regions, labels);
    const kernels::MemoryLedger ledger;
    predictor->forward(regions, labels);
    return ledger.peak_bytes();
  };
  const int64_t of_two = peak(2);
  EXPECT_GE(of_two, kRegions * kChannels * MaskPredictor::kSide * MaskPredictor::kSide *
                        static_cast<int64_t>(sizeof(float)))
      << "the doubled map is there";
  EXPECT_EQ(peak(5000), of_two);
}

}  // namespace
}  // namespace fovea::models
