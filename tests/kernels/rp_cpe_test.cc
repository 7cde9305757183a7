// RP-CPE's numbers and semantics: every implementation, type and layout against fp64.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/vision/rp_cpe/merge.h"
#include "kernels/vision/rp_cpe/op.h"
#include "tests/kernels/rp_cpe_truth.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {
namespace {

class RpCpeTest : public testing::TestWithParam<std::tuple<Variant, at::ScalarType>> {
 protected:
  void SetUp() override {
    at::manual_seed(17);
    threads_ = at::get_num_threads();
    // Small tensors: sharing them among threads costs more than it saves.
    at::set_num_threads(1);
    if (const char* why = CannotRun(variant())) GTEST_SKIP() << why;
    if (variant().implementation == Implementation::kCpu &&
        (type() == at::kHalf || type() == at::kDouble)) {
      GTEST_SKIP() << "the CPU implementation takes fp32 and bf16";
    }
  }
  void TearDown() override { at::set_num_threads(threads_); }

  const Variant& variant() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<1>(GetParam()); }

  at::Tensor Run(const RpCpeCase& c) const {
    const ScopedVariant scope(variant());
    return RpCpe(c.x, c.weights, c.biases);
  }

  void ExpectAsGoodAsPlain(const RpCpeCase& c) const {
    const at::Tensor truth = TruthOf(c);
    const at::Tensor output = Run(c);
    ASSERT_EQ(output.scalar_type(), c.x.scalar_type());
    ASSERT_EQ(output.sizes(), c.x.sizes());
    const double plain = ErrorOf(PlainForm(c), truth);
    const double scale = truth.abs().max().item<double>();
    EXPECT_LE(ErrorOf(output, truth), 2.0 * plain + 1e-6 * scale)
        << "shape " << c.x.sizes() << ", strides " << c.x.strides() << ", plain PyTorch's "
        << plain;
  }

 private:
  int threads_ = 1;
};

TEST_P(RpCpeTest, AnyMapIsAsGoodAsPlainPyTorchs) {
  for (const RpCpeLayout layout : AllLayouts()) {
    for (const int64_t channels : {1, 8, 17, 32, 75}) {
      for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 1}, {1, 7}, {7, 1}, {7, 7}, {5, 9}, {3, 28}}) {
        ExpectAsGoodAsPlain(RandomRpCpe(layout, 2, 4, channels, height, width, type()));
      }
    }
  }
}

TEST_P(RpCpeTest, LargeMapsAreAsGood) {
  for (const RpCpeLayout layout : AllLayouts()) {
    // More rows and longer ones than the scratch of a plane holds; groups of channels.
    ExpectAsGoodAsPlain(RandomRpCpe(layout, 1, 2, 3, 130, 40, type()));
    ExpectAsGoodAsPlain(RandomRpCpe(layout, 1, 2, 2, 5, 5000, type()));
    ExpectAsGoodAsPlain(RandomRpCpe(layout, 1, 2, 200, 3, 200, type()));
  }
}

TEST_P(RpCpeTest, AnyNumberOfBranchesIsAsGood) {
  for (const int64_t branches : {1, 2, 3, 7}) {
    ExpectAsGoodAsPlain(RandomRpCpe(RpCpeLayout::kChannelsLast, 2, branches, 40, 7, 7, type()));
    ExpectAsGoodAsPlain(RandomRpCpe(RpCpeLayout::kPlanes, 2, branches, 40, 7, 7, type()));
  }
}

TEST_P(RpCpeTest, WeightsMayBeFp32AndStrided) {
  for (const RpCpeLayout layout : {RpCpeLayout::kChannelsLast, RpCpeLayout::kPlanes}) {
    RpCpeCase c = RandomRpCpe(layout, 2, 4, 40, 7, 7, type());
    c.weights = c.weights.to(at::kFloat);
    ExpectAsGoodAsPlain(c);
    c.biases = c.biases.to(at::kFloat);
    ExpectAsGoodAsPlain(c);
    c.weights = (0.3 * at::randn({3, 3, 40, 4})).to(type()).permute({3, 2, 1, 0});
    c.biases = at::randn({40, 4}).to(type()).t();
    ExpectAsGoodAsPlain(c);
  }
}

TEST_P(RpCpeTest, MergedBranchesAreTheSame) {
  for (const RpCpeLayout layout : AllLayouts()) {
    for (const int64_t channels : {3, 75}) {
      const RpCpeCase c = RandomRpCpe(layout, 2, 4, channels, 7, 9, type());
      const at::ScalarType fp32 = type() == at::kDouble ? at::kDouble : at::kFloat;
      const RpCpeWeights merged = MergeRpCpe({c.weights.to(fp32), c.biases.to(fp32)});
      const at::Tensor four = Run(c).to(at::kDouble);
      const at::Tensor one = Run({c.x, merged.weights, merged.biases}).to(at::kDouble);
      const double scale = four.abs().max().item<double>();
      const double rounding = type() == at::kBFloat16 ? 0x1p-8 : type() == at::kHalf ? 0x1p-11 : 0;
      EXPECT_LE(ErrorOf(one, four), (rounding + 1e-6) * scale);
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

TEST_P(RpCpeTest, ExpandedMapsAreReadInPlace) {
  RpCpeCase c = RandomRpCpe(RpCpeLayout::kChannelsLast, 1, 4, 40, 7, 9, type());
  c.x = c.x.expand({3, 40, 7, 9});
  ExpectAsGoodAsPlain(c);
  c.x = at::randn({2, 40, 1, 1}).to(type()).expand({2, 40, 7, 9});
  ExpectAsGoodAsPlain(c);
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

std::string NameOf(const testing::TestParamInfo<RpCpeTest::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Implementations, RpCpeTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kHalf,
                                                          at::kDouble)),
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
