// Numbers of dense and k-NN attention, and corner cases of dense and exact k-NN attention, in every
// implementation.
#include "kernels/attention/shared/token_sets.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/simd/gemm.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/token_set_cases.h"

namespace fovea::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The operators on the same tokens.
std::vector<AttentionCase> AllCases(const Tensors& qkv, int64_t topk, const at::Tensor& bias = {}) {
  return {DenseCase(qkv, bias), WithMargin(KnnCase(qkv, topk, bias)),
          WithMargin(KnnExactCase(qkv, topk, bias))};
}

void ExpectAllRight(const Tensors& qkv, int64_t topk, const at::Tensor& bias = {}) {
  for (const AttentionCase& c : AllCases(qkv, topk, bias)) ExpectRight(c);
}

class TokenSetsNumbersTest : public NumbersTest {};

TEST_P(TokenSetsNumbersTest, EveryNumberOfTokensIsRight) {
  for (const int64_t tokens : {1, 2, 3, 7, 49, 97, 197, 200, 257}) {
    for (const int64_t dim : {32, 64}) {
      const Tensors qkv = RandomTokens(tokens > 100 ? 1 : 2, 2, tokens, dim, type());
      ExpectRight(DenseCase(qkv));
      for (const int64_t topk : std::set<int64_t>{1, std::max<int64_t>(1, tokens / 2), tokens}) {
        if (tokens > 100 && dim != 32) continue;  // the truth takes its time
        ExpectRight(WithMargin(KnnCase(qkv, topk)));
        ExpectRight(WithMargin(KnnExactCase(qkv, topk)));
      }
    }
  }
}

// At, below and above the sizes of registers, tiles and chunks.
TEST_P(TokenSetsNumbersTest, DenseIsRightAroundTheSizesOfTiles) {
  for (const int64_t tokens : {15, 16, 17, 31, 32, 33, 63, 65, 128, 129, 300}) {
    SCOPED_TRACE(tokens);
    ExpectRight(DenseCase(RandomTokens(2, 2, tokens, 64, type())));
  }
  ExpectRight(DenseCase(RandomTokens(1, 1, 962, 64, type())));
}

TEST_P(TokenSetsNumbersTest, LongRowsAreRight) {
  for (const auto& [tokens, dim] : {std::pair<int64_t, int64_t>{1025, 64}, {3136, 16}}) {
    Tensors qkv = RandomTokens(1, 1, tokens, dim, type());
    qkv[0] = qkv[0].narrow(2, 500, 150);  // rows as long, for less
    ExpectAllRight(qkv, tokens / 2);
  }
}

TEST_P(TokenSetsNumbersTest, AnyHeadSizeIsRight) {
  for (const int64_t dim : {1, 2, 7, 15, 16, 17, 24, 31, 32, 33, 48, 80, 96, 127, 128}) {
    SCOPED_TRACE(dim);
    // Of 49 numbers in bf16 too many are twins.
    ExpectAllRight(RandomTokens(1, 2, 49, dim, type()), dim == 1 ? 49 : 16);
  }
}

TEST_P(TokenSetsNumbersTest, QueriesAndKeysMayDifferInNumber) {
  for (const auto& [queries, keys] :
       {std::pair<int64_t, int64_t>{1, 97}, {97, 1}, {97, 19}, {19, 97}, {33, 97}}) {
    const Tensors qkv = RandomTokens(2, 2, 97, 32, type());
    ExpectAllRight({qkv[0].narrow(2, 97 - queries, queries), qkv[1].narrow(2, 0, keys),
                    qkv[2].narrow(2, 0, keys)},
                   (keys + 1) / 2);
  }
}

TEST_P(TokenSetsNumbersTest, BiasBroadcastsFromEveryShape) {
  Tensors qkv = RandomTokens(2, 3, 49, 32, type());
  qkv[0] = qkv[0].narrow(2, 0, 41);  // another number than the keys'
  const std::vector<std::vector<int64_t>> shapes = {
      {},        {1},         {49},          {41, 1},       {41, 49},
      {3, 1, 1}, {3, 41, 49}, {2, 1, 1, 49}, {1, 3, 41, 1}, {2, 3, 41, 49}};
  for (const std::vector<int64_t>& shape : shapes) {
    const at::Tensor bias = at::randn(shape);
    ExpectAllRight(qkv, 20, bias);
    ExpectAllRight(qkv, 20, bias.to(type()));
  }
  ExpectAllRight(qkv, 20, at::randn({49, 41}).t());
}

TEST_P(TokenSetsNumbersTest, MaskedKeysWeighNothing) {
  const Tensors qkv = RandomTokens(2, 2, 97, 32, type());
  const at::Tensor masked = at::rand({2, 2, 97, 97}).lt(0.3);
  masked.select(2, 11).fill_(true);  // a row of nothing else
  const at::Tensor bias = at::randn({2, 2, 97, 97}).masked_fill(masked, kMasked);
  ExpectAllRight(qkv, 40, bias);
  // One mask for all rows takes another way.
  ExpectAllRight(qkv, 40, bias[1][1][3]);
}

TEST_P(TokenSetsNumbersTest, NearIsMeasuredBeforeScaleAndBias) {
  const Tensors qkv = RandomTokens(1, 2, 49, 32, type());
  for (const double scale : {-1.0, 0.0, 1e-30, 3.0}) {
    ExpectRight(WithMargin(KnnExactCase(qkv, 20, at::randn({49, 49}) * 10, scale)));
  }
}

TEST_P(TokenSetsNumbersTest, DenseIsRightAtAnyScale) {
  const Tensors qkv = RandomTokens(2, 2, 97, 32, type());
  for (const double scale : {-0.5, 0.0, 1e-30, 0.7, 3.0}) ExpectRight(DenseCase(qkv, {}, scale));
}

// Far beyond what a weight can be relative to no larger one.
TEST_P(TokenSetsNumbersTest, DenseIsRightWithLargeLogits) {
  for (const double factor : {4.0, 30.0, 1000.0}) {
    Tensors qkv = RandomTokens(1, 2, 97, 64, type());
    qkv[0] = qkv[0] * factor;
    ExpectRight(DenseCase(qkv));
    // All of a row's are far below zero, or far above.
    for (const double sign : {-1.0, 1.0}) {
      Tensors shifted = RandomTokens(1, 2, 97, 64, type());
      shifted[0] = at::full_like(shifted[0], factor);
      shifted[1] = (shifted[1] / 64 + sign).to(type());
      ExpectRight(DenseCase(shifted));
    }
  }
}

// [B, N, 3, H, D]: of so many tokens the keys and values are copied first, a head at a time on few
// threads, all heads of both pictures on many.
TEST_P(TokenSetsNumbersTest, DenseIsRightOnManyTokensAsAProjectionLeavesThem) {
  const Tensors apart = RandomTokens(2, 3, 2060, 16, type());
  const at::Tensor packed =
      at::stack(apart).permute({1, 3, 0, 2, 4}).contiguous().permute({2, 0, 3, 1, 4});
  for (const at::Tensor& bias : {at::Tensor(), at::randn({2, 3, 2060, 2060})}) {
    // Of a row of every block: the truth takes its time.
    const auto some = [](const at::Tensor& t) { return t.slice(2, 3, std::nullopt, 15); };
    const Rounded expected = Expected(
        DenseCase({some(apart[0]), apart[1], apart[2]}, bias.defined() ? some(bias) : bias));
    for (const Variant& variant : AllVariants()) {
      if (variant.implementation != Implementation::kCpu || CannotRun(variant)) continue;
      const ScopedVariant scope(variant);
      for (const int threads : {1, 30, 200}) {
        SCOPED_TRACE(variant.name + ", threads: " + std::to_string(threads));
        at::set_num_threads(threads);
        const at::Tensor output = at::empty_like(apart[0]);
        DenseAttentionInputs in{packed[0], packed[1], packed[2], 0.25, std::nullopt};
        if (bias.defined()) in.bias = bias;
        DenseAttentionCpu(in, output);
        ExpectWithinRounding(some(output), expected);
      }
    }
  }
  at::set_num_threads(1);
}

INSTANTIATE_TEST_SUITE_P(Types, TokenSetsNumbersTest, VectorisedTypes(), TypeOf);

// What tiles do not take is attended by panels without a word: the tests of tiles below would pass.
TEST(DenseTilesTest, TakeWhatModelsHave) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [tokens, dim] : {std::pair<int64_t, int64_t>{197, 64}, {49, 32}, {962, 64}}) {
      const Tensors qkv = RandomTokens(2, 3, tokens, dim, type);
      const at::Tensor output = EmptyTokens(qkv[0]);
      for (const auto& bias : {std::optional<at::Tensor>(), std::optional(at::zeros({tokens}))}) {
        std::optional<at::Tensor> expanded;
        if (bias) expanded = ExpandLogitBias(*bias, qkv[0], qkv[1], /*in_fp32=*/true);
        EXPECT_TRUE(attend::FitsTiles(
            attend::MakeTokenSetsJob(qkv[0], qkv[1], qkv[2], expanded, 0.125, output)))
            << tokens << " x " << dim << " " << type;
      }
    }
  }
}

TEST(DenseTilesTest, RoundOtherwiseThanPanels) {
  if (!simd::HasAmxTiles()) GTEST_SKIP() << "this processor lacks AMX";
  at::manual_seed(17);
  const Tensors qkv = RandomTokens(1, 2, 197, 64, at::kFloat);
  const auto by = [&](AttentionWay way) {
    at::Tensor output = EmptyTokens(qkv[0]);
    DenseAttentionCpu({qkv[0], qkv[1], qkv[2], 0.125, std::nullopt}, output, way);
    return output;
  };
  EXPECT_FALSE(at::equal(by(AttentionWay::kTiles), by(AttentionWay::kPanels)));
}

TEST(KnnTilesTest, RoundOtherwiseThanPanels) {
  if (!simd::HasAmxTiles()) GTEST_SKIP() << "this processor lacks AMX";
  at::manual_seed(17);
  const Tensors qkv = RandomTokens(1, 2, 197, 64, at::kFloat);
  const auto by = [&](AttentionWay way) {
    at::Tensor output = EmptyTokens(qkv[0]);
    KnnAttentionCpu({qkv[0], qkv[1], qkv[2], 99, 0.125, std::nullopt}, output, way);
    return output;
  };
  EXPECT_FALSE(at::equal(by(AttentionWay::kTiles), by(AttentionWay::kPanels)));
}

class TokenSetsTest : public VariantTest {
 protected:
  // Queries and keys of zero: the logits are the bias; and the values are the identity: the output
  // holds the weights, [queries, keys].
  at::Tensor WeightsOf(const at::Tensor& bias, int64_t topk = 0) const {
    const int64_t queries = bias.size(0), keys = bias.size(1);
    const at::TensorOptions options = at::TensorOptions().dtype(type());
    const Tensors qkv = {at::zeros({1, 1, queries, keys}, options),
                         at::zeros({1, 1, keys, keys}, options),
                         at::eye(keys, options).expand({1, 1, keys, keys})};
    const AttentionCase c = topk == 0 ? DenseCase(qkv, bias) : KnnExactCase(qkv, topk, bias);
    return RunAs(variant(), c).to(at::kDouble)[0][0];
  }
};

TEST_P(TokenSetsTest, ARowWithoutAFiniteBiasIsZero) {
  const at::Tensor bias = at::randn({4, 50});
  bias[2].fill_(kMasked);
  for (const int64_t topk : {0, 10}) {
    const at::Tensor weights = WeightsOf(bias, topk);
    EXPECT_TRUE(weights[2].eq(0).all().item<bool>());
    EXPECT_TRUE(at::allclose(weights.sum(-1)[1], at::ones({}, at::kDouble), 0, 2e-2));
  }
}

TEST_P(TokenSetsTest, DenseRowsWithNaNOrInfinityAreNaN) {
  const at::Tensor bias = at::randn({5, 50});
  bias[1][30] = kInfinity;
  bias[2][49] = std::nan("");
  bias[3].fill_(kMasked);
  bias[3][7] = kInfinity;
  EXPECT_TRUE(
      WeightsOf(bias).isnan().all(-1).equal(at::tensor({0, 1, 1, 1, 0}, at::kInt).to(at::kBool)));
}

TEST_P(TokenSetsTest, BrokenDenseRowsAreNaNAndNoOthers) {
  const Tensors qkv = RandomTokens(1, 2, 97, 32, type());
  Tensors broken = {qkv[0].clone(), qkv[1], qkv[2]};
  broken[0][0][1][40][3] = std::nan("");
  const at::Tensor output = RunAs(variant(), DenseCase(broken));
  EXPECT_TRUE(output[0][1][40].isnan().all().item<bool>());
  EXPECT_EQ(output.isnan().sum().item<int64_t>(), 32);
  at::Tensor bias = at::zeros({97, 97});
  bias[7][5] = kInfinity;
  bias[8][6] = std::nan("");
  const at::Tensor biased = RunAs(variant(), DenseCase(qkv, bias));
  EXPECT_TRUE(biased.select(2, 7).isnan().all().item<bool>());
  EXPECT_TRUE(biased.select(2, 8).isnan().all().item<bool>());
  EXPECT_EQ(biased.isnan().sum().item<int64_t>(), 2 * 2 * 32);
}

// An infinity has no parts.
TEST_P(TokenSetsTest, DenseInfinitiesAreWhatTheDefinitionMakesOfThem) {
  for (const int64_t tokens : {5, 40, 197}) {
    Tensors qkv;
    for (const at::Tensor& t : RandomTokens(1, 2, tokens, 32, type())) {
      qkv.push_back(at::rand_like(t) + 0.1);
    }
    qkv[0][0][1][2][3] = -kInfinity;           // a row that sees nothing
    qkv[0][0][1][3][3] = kInfinity;            // NaN
    qkv[1][0][0][tokens / 2][5] = -kInfinity;  // a key that nobody sees
    qkv[2][0][1][tokens / 2][7] = kInfinity;   // a value that everybody sees
    const at::Tensor output = RunAs(variant(), DenseCase(qkv))[0];
    const at::Tensor expected =
        DenseAttentionReference({qkv[0], qkv[1], qkv[2], ScaleOf({}, qkv[0]), std::nullopt})[0];
    EXPECT_TRUE(output.isnan().equal(expected.isnan())) << tokens;
    EXPECT_TRUE(output.isinf().equal(expected.isinf())) << tokens;
    EXPECT_TRUE(at::allclose(output, expected, 2e-2, 2e-2, /*equal_nan=*/true)) << tokens;
  }
}

// A block's result does not depend on which thread makes it, nor on what it made before.
TEST_P(TokenSetsTest, ThreadsChangeNothingOfDenseAttention) {
  if (is_reference()) GTEST_SKIP() << "its products are ATen's";
  const AttentionCase c = DenseCase(RandomTokens(2, 3, 197, 64, type()));
  const at::Tensor expected = RunAs(variant(), c);
  for (const int threads : {2, 5}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(RunAs(variant(), c), expected)) << threads;
  }
  at::set_num_threads(1);
}

// Queries and keys that are not finite, where no bias leads another way.
TEST_P(TokenSetsTest, DenseRowsWithNaNOrInfinityAreNaNWithoutBias) {
  for (const int64_t tokens : {5, 37, 64, 197}) {
    SCOPED_TRACE(tokens);
    Tensors qkv = RandomTokens(1, 1, tokens, 32, type());
    qkv[0] = at::rand_like(qkv[0]) + 0.1;
    qkv[1] = at::rand_like(qkv[1]) + 0.1;
    at::Tensor expected = at::zeros({tokens}, at::kBool);
    expected.narrow(0, 1, 2).fill_(true);
    at::Tensor& query = qkv[0];
    query[0][0][1][3] = std::nan("");
    query[0][0][2][3] = kInfinity;   // every logit
    query[0][0][3][3] = -kInfinity;  // likewise: the row sees nothing
    const at::Tensor output = RunAs(variant(), DenseCase(qkv))[0][0];
    EXPECT_TRUE(output.isnan().all(-1).equal(expected));
    EXPECT_TRUE(output[3].eq(0).all().item<bool>());

    query = at::rand_like(query) + 0.1;
    qkv[1][0][0][tokens / 2][3] = kInfinity;  // one logit of every row
    EXPECT_TRUE(RunAs(variant(), DenseCase(qkv)).isnan().all().item<bool>());
  }
}

TEST_P(TokenSetsTest, LargeFiniteLogitsDoNotOverflow) {
  const at::Tensor bias = at::randn({3, 50});
  bias[0] = bias[0] * 3e37;
  bias[1].fill_(-3e38);
  bias[2] = bias[2] * 1e30;
  const at::Tensor truth = at::softmax(bias.to(at::kDouble), -1);
  for (const int64_t topk : {0, 50}) {
    EXPECT_TRUE(at::allclose(WeightsOf(bias, topk), truth, 0, 4e-3)) << topk;
  }
}

// Exact k-NN attention's own corners.

TEST_P(TokenSetsTest, ABiasThatIsNotFiniteExcludesTheKeyThere) {
  at::Tensor bias = at::randn({3, 50});
  bias[0][3] = bias[1][4] = kInfinity;
  bias[0][7] = bias[2][8] = std::nan("");
  bias[1][9] = kMasked;
  const at::Tensor excluded = bias.isfinite().logical_not();
  const at::Tensor expected = at::softmax(bias.to(at::kDouble).masked_fill(excluded, kMasked), -1);
  const double tolerance = type() == at::kBFloat16 ? 4e-3 : 1e-3;
  EXPECT_TRUE(at::allclose(WeightsOf(bias, 50), expected, 0, tolerance));
  // With fewer than topk others, all of those; zeros, where there is none.
  bias = at::full({2, 50}, kMasked, at::kFloat);
  bias[0][3] = 1.0;
  bias[0][17] = -2.0;
  bias[0][49] = 0.5;
  bias[0][20] = kInfinity;
  bias[1][20] = std::nan("");
  const at::Tensor weights = WeightsOf(bias, 20);
  const at::Tensor finite = bias.masked_fill(bias.isfinite().logical_not(), kMasked);
  EXPECT_TRUE(at::allclose(weights[0], at::softmax(finite[0].to(at::kDouble), -1), 0, tolerance));
  EXPECT_TRUE(weights[1].eq(0).all().item<bool>());
}

// Keys at distances that are small integers, with many ties: exact in every type.
TEST_P(TokenSetsTest, EquallyNearKeysAreTakenByIndex) {
  const at::TensorOptions options = at::TensorOptions().dtype(type());
  const at::Tensor query = at::randint(-2, 3, {1, 2, 33, 4}).to(type());
  const at::Tensor key = at::randint(-2, 3, {1, 2, 97, 4}).to(type());
  const at::Tensor padded_query = at::constant_pad_nd(query, {0, 93});
  const at::Tensor padded_key = at::constant_pad_nd(key, {0, 93});
  const at::Tensor value = at::eye(97, options).expand({1, 2, 97, 97});
  for (const int64_t topk : {1, 5, 30, 48, 96}) {
    // A scale of zero: every key that is taken weighs the same.
    const AttentionCase c = KnnExactCase({padded_query, padded_key, value}, topk, {}, 0.0);
    const at::Tensor taken = RunAs(variant(), c).gt(0);
    EXPECT_TRUE(taken.equal(Expected(c).value.gt(0))) << "topk " << topk;
  }
  const at::Tensor equal = WeightsOf(at::zeros({1, 50}), 13);
  EXPECT_TRUE(equal.narrow(-1, 0, 13).gt(0).all().item<bool>());
  EXPECT_EQ(equal.gt(0).sum().item<int64_t>(), 13);
}

class ExactInfinitiesTest : public TokenSetsTest {
 protected:
  // One query (1, 0, 0, ...), keys (x, 0, 0, ...): proximities x - x^2 / 2. The weights.
  at::Tensor WeightsOfKeys(const std::vector<double>& x, int64_t topk, double scale) const {
    const int64_t keys = static_cast<int64_t>(x.size());
    const at::TensorOptions options = at::TensorOptions().dtype(type());
    const at::Tensor query = at::zeros({1, 1, 1, keys}, options);
    query.select(-1, 0).fill_(1.0);
    const at::Tensor key = at::zeros({1, 1, keys, keys}, options);
    key.select(-1, 0).copy_(at::tensor(x, at::kDouble));
    const AttentionCase c = KnnExactCase(
        {query, key, at::eye(keys, options).expand({1, 1, keys, keys})}, topk, {}, scale);
    return RunAs(variant(), c).to(at::kDouble)[0][0][0];
  }
};

// |key|^2 is too large for a float.
TEST_P(ExactInfinitiesTest, AKeyInfinitelyFarIsNoNeighbour) {
  const at::Tensor two = at::tensor({0.5, 0.0, 0.5, 0.0}, at::kDouble);
  for (const int64_t topk : {2, 3, 4}) {
    EXPECT_TRUE(WeightsOfKeys({1, 1e20, 1, -1e20}, topk, 1e-30).allclose(two)) << topk;
  }
  EXPECT_TRUE(WeightsOfKeys({1e20, -1e20}, 1, 1e-30).eq(0).all().item<bool>());
}

TEST_P(ExactInfinitiesTest, AKeyThatIsNotFiniteMakesItsRowsNaN) {
  for (const double scale : {1.0, -1.0}) {
    EXPECT_TRUE(WeightsOfKeys({1, std::nan(""), 1, 2}, 2, scale).isnan().all().item<bool>());
    EXPECT_TRUE(WeightsOfKeys({1, 2, 3, kInfinity}, 2, scale).isnan().all().item<bool>()) << scale;
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, TokenSetsTest, testing::ValuesIn(EveryVariantAndType()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Implementations, ExactInfinitiesTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kBFloat16)),
                         NameOf);

}  // namespace
}  // namespace fovea::kernels
