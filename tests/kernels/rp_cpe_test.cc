// RP-CPE's numbers and semantics: every implementation, type and layout against fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/vision/rp_cpe/merge.h"
#include "kernels/vision/rp_cpe/op.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/rp_cpe_truth.h"

namespace fovea::kernels {
namespace {

void ExpectRight(const RpCpeCase& c) {
  SCOPED_TRACE(testing::Message() << "shape " << c.x.sizes() << ", strides " << c.x.strides());
  ExpectEveryVariant(c.x.scalar_type(), ExpectedOf(c),
                     [&] { return RpCpe(c.x, c.weights, c.biases); });
}

class RpCpeNumbersTest : public NumbersTest {};

TEST_P(RpCpeNumbersTest, AnyMapIsRight) {
  for (const RpCpeLayout layout : AllLayouts()) {
    for (const int64_t channels : {1, 8, 17, 32, 75}) {
      for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 1}, {1, 7}, {7, 1}, {7, 7}, {5, 9}, {3, 28}}) {
        ExpectRight(RandomRpCpe(layout, 2, 4, channels, height, width, type()));
      }
    }
  }
}

TEST_P(RpCpeNumbersTest, LargeMapsAreRight) {
  for (const RpCpeLayout layout : AllLayouts()) {
    // More rows and longer ones than the scratch of a plane holds; groups of channels.
    ExpectRight(RandomRpCpe(layout, 1, 2, 3, 130, 40, type()));
    ExpectRight(RandomRpCpe(layout, 1, 2, 2, 5, 5000, type()));
    ExpectRight(RandomRpCpe(layout, 1, 2, 200, 3, 200, type()));
  }
}

TEST_P(RpCpeNumbersTest, AnyNumberOfBranchesIsRight) {
  for (const int64_t branches : {1, 2, 3, 7}) {
    ExpectRight(RandomRpCpe(RpCpeLayout::kChannelsLast, 2, branches, 40, 7, 7, type()));
    ExpectRight(RandomRpCpe(RpCpeLayout::kPlanes, 2, branches, 40, 7, 7, type()));
  }
}

TEST_P(RpCpeNumbersTest, WeightsMayBeFp32AndStrided) {
  for (const RpCpeLayout layout : {RpCpeLayout::kChannelsLast, RpCpeLayout::kPlanes}) {
    RpCpeCase c = RandomRpCpe(layout, 2, 4, 40, 7, 7, type());
    c.weights = c.weights.to(at::kFloat);
    ExpectRight(c);
    c.biases = c.biases.to(at::kFloat);
    ExpectRight(c);
    c.weights = (0.3 * at::randn({3, 3, 40, 4})).to(type()).permute({3, 2, 1, 0});
    c.biases = at::randn({40, 4}).to(type()).t();
    ExpectRight(c);
  }
}

TEST_P(RpCpeNumbersTest, ExpandedMapsAreReadInPlace) {
  RpCpeCase c = RandomRpCpe(RpCpeLayout::kChannelsLast, 1, 4, 40, 7, 9, type());
  c.x = c.x.expand({3, 40, 7, 9});
  ExpectRight(c);
  c.x = at::randn({2, 40, 1, 1}).to(type()).expand({2, 40, 7, 9});
  ExpectRight(c);
}

TEST_P(RpCpeNumbersTest, GeluInTheSamePassIsRight) {
  for (const RpCpeLayout layout : AllLayouts()) {
    for (const int64_t channels : {1, 17, 32, 75}) {
      for (const auto& [height, width] :
           std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 7}, {7, 7}, {5, 9}, {3, 28}}) {
        const RpCpeCase c = RandomRpCpe(layout, 2, 4, channels, height, width, type());
        SCOPED_TRACE(testing::Message()
                     << "shape " << c.x.sizes() << ", strides " << c.x.strides());
        const Precision p = PrecisionOf(type());
        // What is not done in the same pass is rounded between the two.
        Rounded expected = Gelu(Stored(ExpectedOf(c), p.type), p.sums);
        // What is promised where results become bf16.
        if (type() == at::kBFloat16) expected.squares.add_(std::pow(6e-5 / kLambda, 2));
        ExpectEveryVariant(type(), expected, [&] { return RpCpeGelu(c.x, c.weights, c.biases); });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RpCpeNumbersTest, EveryType(), TypeOf);

class RpCpeTest : public VariantTest {
 protected:
  at::Tensor Run(const RpCpeCase& c) const {
    const ScopedVariant scope(variant());
    return RpCpe(c.x, c.weights, c.biases);
  }
};

TEST_P(RpCpeTest, MergedBranchesAreTheSame) {
  for (const RpCpeLayout layout : AllLayouts()) {
    for (const int64_t channels : {3, 75}) {
      const RpCpeCase c = RandomRpCpe(layout, 2, 4, channels, 7, 9, type());
      const at::ScalarType fp32 = type() == at::kDouble ? at::kDouble : at::kFloat;
      const RpCpeWeights merged = MergeRpCpe({c.weights.to(fp32), c.biases.to(fp32)});
      ExpectWithinRounding(Run({c.x, merged.weights, merged.biases}), ExpectedOf(c));
    }
  }
}

TEST_P(RpCpeTest, TheOutputLiesAsTheMapDoes) {
  const auto strides_of = [&](RpCpeLayout layout) {
    return Run(RandomRpCpe(layout, 2, 4, 40, 7, 9, type())).strides().vec();
  };
  const std::vector<int64_t> channels_last = {40 * 63, 1, 40 * 9, 40}, planes = {40 * 63, 63, 9, 1};
  EXPECT_EQ(strides_of(RpCpeLayout::kChannelsLast), channels_last);
  EXPECT_EQ(strides_of(RpCpeLayout::kAfterClassToken), channels_last);
  EXPECT_EQ(strides_of(RpCpeLayout::kPlanes), planes);
  EXPECT_EQ(strides_of(RpCpeLayout::kCropped), planes);
  EXPECT_EQ(strides_of(RpCpeLayout::kTransposed), planes);
}

TEST_P(RpCpeTest, ANaNReachesItsNeighboursOnly) {
  for (const RpCpeLayout layout : AllLayouts()) {
    RpCpeCase c = RandomRpCpe(layout, 2, 4, 33, 7, 9, type());
    c.x[1][32][3][8] = std::nan("");
    const at::Tensor broken = Run(c).isnan();
    EXPECT_TRUE(broken[1][32].narrow(0, 2, 3).narrow(1, 7, 2).all().item<bool>());
    EXPECT_EQ(broken.sum().item<int64_t>(), 6);
  }
}

TEST_P(RpCpeTest, AnEmptyBatchIsAnEmptyAnswer) {
  const RpCpeCase c = RandomRpCpe(RpCpeLayout::kPlanes, 0, 4, 3, 7, 9, type());
  EXPECT_EQ(Run(c).sizes(), at::IntArrayRef({0, 3, 7, 9}));
}

TEST_P(RpCpeTest, ResultsDoNotDependOnTheNumberOfThreads) {
  for (const RpCpeLayout layout : AllLayouts()) {
    const RpCpeCase c = RandomRpCpe(layout, 3, 4, 75, 28, 28, type());
    const at::Tensor one = Run(c);
    at::set_num_threads(3);
    const at::Tensor three = Run(c);
    at::set_num_threads(1);
    EXPECT_TRUE(one.equal(three));
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, RpCpeTest, testing::ValuesIn(EveryVariantAndType()),
                         NameOf);

TEST(MergeRpCpeTest, BatchNormsAreFolded) {
  at::manual_seed(17);
  const RpCpeCase c = RandomRpCpe(RpCpeLayout::kPlanes, 2, 4, 5, 7, 9, at::kFloat);
  const RpCpeNorms norms{at::randn({4, 5}), at::randn({4, 5}), at::randn({4, 5}), at::rand({4, 5}),
                         1e-3};
  at::Tensor expected = c.x;
  for (int64_t b = 0; b < 4; ++b) {
    const at::Tensor branch =
        at::conv2d(c.x, c.weights[b].unsqueeze(1), c.biases[b], 1, 1, 1, /*groups=*/5);
    expected = expected + at::batch_norm(branch, norms.gamma[b], norms.beta[b],
                                         norms.running_mean[b], norms.running_variance[b],
                                         /*training=*/false, 0.1, norms.eps, false);
  }
  const RpCpeWeights merged = MergeRpCpe({c.weights, c.biases}, norms);
  EXPECT_EQ(merged.weights.sizes(), at::IntArrayRef({1, 5, 3, 3}));
  EXPECT_EQ(merged.biases.sizes(), at::IntArrayRef({1, 5}));
  EXPECT_TRUE(at::allclose(RpCpe(c.x, merged.weights, merged.biases), expected, 1e-5, 1e-4));
}

}  // namespace
}  // namespace fovea::kernels
