// Key-only attention where it is not a matter of rounding: NaN and infinities, layouts, threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>

#include "kernels/attention/key_only_attention/op.h"
#include "tests/kernels/helpers_share.h"
#include "tests/kernels/key_only_truth.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class KeyOnlySemanticsTest : public testing::TestWithParam<std::tuple<Variant, at::ScalarType>> {
 protected:
  void SetUp() override {
    at::manual_seed(6);
    at::set_num_threads(1);
    if (const char* why = CannotRun(variant())) GTEST_SKIP() << why;
  }

  const Variant& variant() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<1>(GetParam()); }
  double tolerance() const { return type() == at::kFloat ? 1e-5 : 3e-2; }

  at::Tensor Run(const KeyOnlyCase& c) const {
    const ScopedVariant scope(variant());
    return KeyOnlyAttention(c.key, c.value, c.saliency, c.scale);
  }

  KeyOnlyCase Random(int64_t tokens) const { return RandomKeyOnlyCase(2, 2, tokens, 32, type()); }

  // One head of four channels whose logits are `logits`, held by the first channel; values of one:
  // the output is the context.
  at::Tensor ContextOf(const at::Tensor& logits) const {
    const auto options = at::TensorOptions().dtype(type());
    at::Tensor key = at::ones({1, 1, logits.size(0), 4}, options);
    key.select(-1, 0).copy_(logits);
    at::Tensor saliency = at::zeros({1, 4}, options);
    saliency.select(-1, 0).fill_(1.0);
    const at::Tensor output = Run({key, at::ones_like(key), saliency, 1.0});
    return output.to(at::kDouble).select(2, 0).flatten();
  }
};

TEST_P(KeyOnlySemanticsTest, ANaNSpoilsItsHeadOnly) {
  KeyOnlyCase c = Random(600);
  const at::Tensor before = Run(c);
  for (const int64_t token : {0, 31, 300, 599}) {
    const at::Tensor key = c.key.clone();
    key[1][0][token][3] = std::nan("");
    KeyOnlyCase spoiled = c;
    spoiled.key = key;
    const at::Tensor after = Run(spoiled);
    EXPECT_TRUE(after[1][0].isnan().all().item<bool>()) << token;
    EXPECT_EQ(after.isnan().sum().item<int64_t>(), 600 * 32) << token;
    after[1][0].copy_(before[1][0]);
    EXPECT_TRUE(after.equal(before)) << token;
  }
}

TEST_P(KeyOnlySemanticsTest, AnInfiniteLogitMakesItsHeadNaNAsInSoftmax) {
  for (const int64_t token : {0, 40, 299}) {
    at::Tensor logits = at::randn({300});
    logits[token] = kInfinity;
    EXPECT_TRUE(ContextOf(logits).isnan().all().item<bool>()) << token;
  }
}

TEST_P(KeyOnlySemanticsTest, AMinusInfiniteLogitWeighsNothingButItsOwnInfinityIsNaN) {
  for (const int64_t token : {0, 40, 299}) {
    at::Tensor logits = at::zeros({300});
    logits[token] = -kInfinity;
    const at::Tensor context = ContextOf(logits);
    EXPECT_TRUE(std::isnan(context[0].item<double>())) << token;  // 0 * -inf
    for (int64_t channel = 1; channel < 4; ++channel) {
      EXPECT_NEAR(context[channel].item<double>(), 1.0, tolerance()) << token;
    }
  }
}

TEST_P(KeyOnlySemanticsTest, ABlockOfMinusInfinitiesBeforeOrAfterWeighsNothing) {
  for (const bool before : {true, false}) {
    at::Tensor logits = at::full({700}, 0.0, at::kFloat);
    logits.narrow(0, before ? 0 : 300, 400).fill_(-kInfinity);
    const at::Tensor context = ContextOf(logits);
    EXPECT_NEAR(context[1].item<double>(), 1.0, tolerance()) << before;
  }
}

TEST_P(KeyOnlySemanticsTest, NoFiniteLogitIsNaNAsInSoftmax) {
  const at::Tensor context = ContextOf(at::full({300}, -kInfinity, at::kFloat));
  EXPECT_TRUE(context.isnan().all().item<bool>()) << context;
}

TEST_P(KeyOnlySemanticsTest, OneTokenIsItsOwnContext) {
  const KeyOnlyCase c = Random(1);
  const at::Tensor product = (c.key.to(at::kFloat) * c.value.to(at::kFloat)).to(type());
  EXPECT_TRUE(Run(c).equal(product));
}

TEST_P(KeyOnlySemanticsTest, LargeLogitsDoNotOverflow) {
  at::Tensor logits = at::full({300}, 1e30, at::kFloat);
  logits[7] = 2e30;
  const at::Tensor context = ContextOf(logits);
  EXPECT_NEAR(context[0].item<double>() / 2e30, 1.0, 1e-2);
  EXPECT_NEAR(context[1].item<double>(), 1.0, tolerance());
}

TEST_P(KeyOnlySemanticsTest, StridesDoNotMatter) {
  const KeyOnlyCase views = Random(309);
  const KeyOnlyCase packed{views.key.contiguous(), views.value.contiguous(),
                           views.saliency.t().contiguous().t()};
  EXPECT_TRUE(Run(views).equal(Run(packed)));
}

TEST_P(KeyOnlySemanticsTest, OneKeyForEveryHeadMayBeExpanded) {
  KeyOnlyCase c = Random(309);
  c.key = c.key.narrow(1, 0, 1).expand_as(c.value);
  KeyOnlyCase copied = c;
  copied.key = c.key.contiguous();
  EXPECT_TRUE(Run(c).equal(Run(copied)));
}

TEST_P(KeyOnlySemanticsTest, OddStridesAndOffsetsAreReadInPlace) {
  const at::Tensor wide = at::randn({2, 2, 2, 49, 33}).to(type());
  const auto part = [&](int64_t i) { return wide[i].narrow(-1, 1, 32); };
  const KeyOnlyCase c{part(0), part(1), at::randn({2, 32}).to(type())};
  ExpectWithinRounding(Run(c), ExpectedOf(c));
}

TEST_P(KeyOnlySemanticsTest, TheOutputLiesAsTheNextProjectionWantsIt) {
  EXPECT_TRUE(Run(Random(49)).transpose(1, 2).is_contiguous());
}

TEST_P(KeyOnlySemanticsTest, AnEmptyBatchIsAnEmptyAnswer) {
  KeyOnlyCase c = Random(7);
  c.key = c.key.narrow(0, 0, 0);
  c.value = c.value.narrow(0, 0, 0);
  EXPECT_EQ(Run(c).sizes(), at::IntArrayRef({0, 2, 7, 32}));
}

TEST_P(KeyOnlySemanticsTest, ResultsDoNotDependOnTheNumberOfThreads) {
  const KeyOnlyCase c = RandomKeyOnlyCase(1, 1, 5000, 64, type());
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = Run(c);
  at::set_num_threads(2);
  const at::Tensor two = Run(c);
  at::set_num_threads(before);
  if (variant().implementation == Implementation::kReference) {
    ExpectWithinRounding(two, ExpectedOf(c));  // its products are another library's
  } else {
    EXPECT_TRUE(one.equal(two));
  }
}

std::string NameOf(const testing::TestParamInfo<KeyOnlySemanticsTest::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Implementations, KeyOnlySemanticsTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kBFloat16)),
                         NameOf);

// One image and one head: the tokens have to be shared out.
TEST(KeyOnlyThreadsTest, TwoThreadsShareOneLongHead) {
  const Variant avx2{"", Implementation::kCpu, simd::Isa::kAvx2};
  if (const char* why = CannotRun(avx2)) GTEST_SKIP() << why;
  const ScopedVariant scope(avx2);
  const KeyOnlyCase c = RandomKeyOnlyCase(1, 1, 65536, 64, at::kFloat);
  EXPECT_GT(HelpersShare([&] { KeyOnlyAttention(c.key, c.value, c.saliency); }), kSharedByTwo);
}

}  // namespace
}  // namespace fovea::kernels
