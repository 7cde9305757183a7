// Numbers and corner cases of static-key and convolutional static-key attention, in every
// implementation.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/token_set_cases.h"

namespace fovea::kernels {
namespace {

using Grid = std::array<int64_t, 2>;

const std::vector<ActivationArguments>& Activations() {
  static const std::vector<ActivationArguments> all = {{"softmax"},
                                                       {"gelu"},
                                                       {"relu"},
                                                       {"star_relu"},
                                                       {"star_relu", 0.8944, -0.4472},
                                                       {"star_relu", -2.0, 0.0}};
  return all;
}

class StaticKeysNumbersTest : public NumbersTest {};

TEST_P(StaticKeysNumbersTest, EveryActivationScaleAndNumberOfKeysIsRight) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{1, 1},
                                      {1, 97},
                                      {97, 1},
                                      {3, 2},
                                      {49, 49},
                                      {41, 200},
                                      {197, 197},
                                      {257, 100}}) {
    const Tensors inputs = RandomStaticKey(2, 2, queries, keys, 32, type());
    for (const ActivationArguments& activation : Activations()) {
      for (const Scale scale : {Scale(), Scale(1.0)}) {
        ExpectRight(StaticKeyCase(inputs, activation, scale));
      }
    }
  }
}

TEST_P(StaticKeysNumbersTest, AnyHeadSizeIsRight) {
  for (const int64_t dim : {1, 2, 7, 16, 24, 33, 64, 80, 128}) {
    for (const ActivationArguments& activation : Activations()) {
      ExpectRight(StaticKeyCase(RandomStaticKey(1, 2, 49, 37, dim, type()), activation));
      ExpectRight(ConvStaticKeyCase(
          RandomConvStaticKey(1, 2, {3, 5}, dim, dim % 3 == 1, true, type()), {3, 5}, activation));
    }
  }
}

TEST_P(StaticKeysNumbersTest, LongRowsAreRight) {
  ExpectRight(StaticKeyCase(RandomStaticKey(1, 1, 300, 3136, 16, type())));
  ExpectRight(StaticKeyCase(RandomStaticKey(1, 1, 300, 1025, 64, type()), {"gelu"}));
}

TEST_P(StaticKeysNumbersTest, ConvolutionsOfEveryGridAreRight) {
  for (const Grid grid :
       {Grid{1, 1}, {1, 2}, {2, 1}, {2, 3}, {5, 17}, {1, 40}, {40, 1}, {14, 14}}) {
    for (const bool class_token : {false, true}) {
      for (const bool bias : {false, true}) {
        const bool large = grid[0] * grid[1] > 100;
        const Tensors inputs =
            RandomConvStaticKey(large ? 1 : 2, 2, grid, large ? 32 : 16, class_token, bias, type());
        ExpectRight(ConvStaticKeyCase(inputs, grid));
        ExpectRight(ConvStaticKeyCase(inputs, grid, {"gelu"}, 1.0));
        if (large) continue;
        ExpectRight(ConvStaticKeyCase(inputs, grid, {"star_relu", 0.8944, -0.4472}));
        ExpectRight(ConvStaticKeyCase(inputs, grid, {"relu"}, -0.5));
      }
    }
  }
}

TEST_P(StaticKeysNumbersTest, WeightsMayLieInAnyWay) {
  Tensors inputs = RandomConvStaticKey(2, 2, {4, 5}, 16, true, true, type());
  inputs[2] = inputs[2].contiguous(at::MemoryFormat::ChannelsLast);
  inputs[3] = at::stack({inputs[3], inputs[3]}, 1).select(1, 0);
  inputs[4] = inputs[4].narrow(0, 0, 1).expand({2, 1, 16});
  ExpectRight(ConvStaticKeyCase(inputs, {4, 5}));
  Tensors keys = RandomStaticKey(2, 2, 49, 37, 32, type());
  keys[1] = keys[1].narrow(0, 0, 1).expand({2, 37, 32});
  ExpectRight(StaticKeyCase(keys, {"gelu"}));
}

INSTANTIATE_TEST_SUITE_P(Types, StaticKeysNumbersTest, VectorisedTypes(), TypeOf);

// Both ways of the CPU, whichever was measured to be faster here, of weights as prepared models
// have them.
class ConvStaticKeyWaysTest
    : public testing::TestWithParam<std::tuple<AttentionWay, at::ScalarType>> {
 protected:
  void SetUp() override {
    at::manual_seed(19);
    at::set_num_threads(1);
    if (simd::BestIsa() == simd::Isa::kNone) GTEST_SKIP() << "this processor lacks AVX2";
    if (way() == AttentionWay::kTiles && !simd::HasAmxTiles()) {
      GTEST_SKIP() << "this processor lacks AMX";
    }
  }
  void TearDown() override { at::set_num_threads(1); }

  AttentionWay way() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<1>(GetParam()); }

  // Without a class token.
  Tensors Random(int64_t batch, const Grid& grid, int64_t dim, bool bias) const {
    Tensors inputs = RandomConvStaticKey(batch, 2, grid, dim, /*class_token=*/false, bias, type());
    inputs[2] = inputs[2].contiguous(at::MemoryFormat::ChannelsLast);
    return inputs;
  }
  at::Tensor RunIn(AttentionWay way, const Tensors& t, const Grid& grid) const {
    at::Tensor output = EmptyTokens(t[0]);
    const double scale = ScaleOf({}, t[0]);
    ConvStaticKeyAttentionInputs in{
        t[0], t[1], grid, t[2], std::nullopt, std::nullopt, {ActivationKind::kSoftmax, 1, 0},
        scale};
    if (t[3].defined()) in.bias = t[3];
    ConvStaticKeyAttentionCpu(in, output, way);
    return output;
  }
  void ExpectRightIn(const Tensors& inputs, const Grid& grid) const {
    SCOPED_TRACE(testing::Message() << grid[0] << "x" << grid[1]);
    ExpectWithinRounding(RunIn(way(), inputs, grid), Expected(ConvStaticKeyCase(inputs, grid)));
  }
};

TEST_P(ConvStaticKeyWaysTest, EveryGridAndHeadSizeIsRight) {
  for (const Grid grid : {Grid{1, 1}, {1, 2}, {2, 3}, {4, 8}, {3, 11}, {5, 17}, {1, 40}, {40, 1}}) {
    for (const bool bias : {false, true}) ExpectRightIn(Random(2, grid, 16, bias), grid);
  }
  for (const int64_t dim : {1, 7, 24, 32, 48, 64})
    ExpectRightIn(Random(1, {6, 7}, dim, true), {6, 7});
  const Tensors large = Random(1, {14, 14}, 32, false);
  ExpectRightIn(large, {14, 14});
  if (way() == AttentionWay::kTiles) {
    EXPECT_FALSE(RunIn(way(), large, {14, 14}).equal(RunIn(AttentionWay::kPanels, large, {14, 14})))
        << "tiles took it";
  }
}

TEST_P(ConvStaticKeyWaysTest, ThreadsChangeNothing) {
  // Threads cut a head between them. 6x6 and 14x14 tokens are an odd number of vectors: their
  // blocks are not all of one height.
  for (const Grid grid : {Grid{9, 14}, {6, 6}, {14, 14}}) {
    const Tensors inputs = Random(1, grid, 32, true);
    at::set_num_threads(1);
    const at::Tensor alone = RunIn(way(), inputs, grid);
    for (const int threads : {2, 3}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(alone.equal(RunIn(way(), inputs, grid)))
          << grid[0] << "x" << grid[1] << ", " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ConvStaticKeyWaysTest,
                         testing::Combine(testing::Values(AttentionWay::kPanels,
                                                          AttentionWay::kTiles),
                                          testing::Values(at::kFloat, at::kBFloat16)),
                         [](const testing::TestParamInfo<ConvStaticKeyWaysTest::ParamType>& info) {
                           const bool tiles = std::get<0>(info.param) == AttentionWay::kTiles;
                           return std::string(tiles ? "Tiles_" : "Panels_") +
                                  c10::toString(std::get<1>(info.param));
                         });

class StaticKeysTest : public VariantTest {};

// Weights that are 1 at one tap only: the logits are the map's neighbours.
TEST_P(StaticKeysTest, TapsPointAsIn2dConvolution) {
  const at::TensorOptions options = at::TensorOptions().dtype(type());
  for (int64_t dy = 0; dy < 3; ++dy) {
    for (int64_t dx = 0; dx < 3; ++dx) {
      at::Tensor weight = at::zeros({12, 2, 3, 3}, options);
      weight[7][1][dy][dx] = 1.0;  // the key of position 7
      const at::Tensor query = at::arange(24, options).reshape({1, 1, 12, 2});
      at::Tensor value = at::zeros({1, 1, 12, 2}, options);
      value[0][0][7].fill_(1.0);
      const at::Tensor output = RunAs(
          variant(), ConvStaticKeyCase({query, value, weight, {}, {}}, {3, 4}, {"relu"}, 1.0));
      for (int64_t y = 0; y < 3; ++y) {
        for (int64_t x = 0; x < 4; ++x) {
          const int64_t from_y = y + dy - 1, from_x = x + dx - 1;
          const bool inside = from_y >= 0 && from_y < 3 && from_x >= 0 && from_x < 4;
          const double expected = inside ? 2.0 * (from_y * 4 + from_x) + 1.0 : 0.0;
          EXPECT_EQ(output[0][0][y * 4 + x][0].item<double>(), expected);
        }
      }
    }
  }
}

TEST_P(StaticKeysTest, TheClassTokensRowIsItsCentreTap) {
  const Tensors inputs = RandomConvStaticKey(2, 2, {2, 3}, 16, true, true, type());
  const at::Tensor output = RunAs(variant(), ConvStaticKeyCase(inputs, {2, 3}));
  // Static-key attention with the class key and the centre taps as keys; the bias by a channel
  // of 1.
  const auto with = [](const at::Tensor& t, const at::Tensor& channel) {
    return at::cat({t, channel.to(t.scalar_type())}, -1);
  };
  const at::Tensor taps = inputs[2].select(-1, 1).select(-1, 1).reshape({2, 6, 16});
  const at::Tensor query = inputs[0].narrow(2, 0, 1);
  const at::Tensor keys =
      with(at::cat({inputs[4], taps}, 1),
           at::cat({at::zeros({2, 1, 1}), inputs[3].reshape({2, 6, 1}).to(at::kFloat)}, 1));
  const AttentionCase by_keys = StaticKeyCase(
      {with(query, at::ones({2, 2, 1, 1})), keys, with(inputs[1], at::zeros({2, 2, 7, 1}))}, {},
      0.25);
  ExpectWithinRounding(output.narrow(2, 0, 1), Expected(by_keys).Map([](const at::Tensor& t) {
    return t.narrow(-1, 0, 16);
  }));
}

// NaN reaches a row through any activation, +inf through softmax only.
TEST_P(StaticKeysTest, NaNSpoilsItsRowWhateverTheActivation) {
  for (const ActivationArguments& activation : Activations()) {
    SCOPED_TRACE(activation.name);
    Tensors inputs = RandomStaticKey(1, 2, 20, 19, 16, type());
    inputs[0] = inputs[0].clone();
    inputs[0][0][1][5][0] = std::nan("");
    const at::Tensor nan = RunAs(variant(), StaticKeyCase(inputs, activation)).isnan();
    EXPECT_TRUE(nan[0][1][5].all().item<bool>());
    EXPECT_EQ(nan.sum().item<int64_t>(), 16);

    Tensors map = RandomConvStaticKey(1, 2, {3, 4}, 16, true, true, type());
    map[0] = map[0].clone();
    map[0][0][1][1][0] = std::nan("");  // the map's first place: seen by itself and three others
    const at::Tensor seen =
        RunAs(variant(), ConvStaticKeyCase(map, {3, 4}, activation)).isnan().all(-1)[0][1];
    at::Tensor expected = at::zeros({13}, at::kBool);
    for (const int64_t token : {1, 2, 5, 6}) expected[token] = true;
    EXPECT_TRUE(seen.equal(expected)) << seen;
  }
}

TEST_P(StaticKeysTest, InfiniteLogitsAreWhatTheActivationMakesOfThem) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::TensorOptions options = at::TensorOptions().dtype(type());
  const at::Tensor query =
      at::tensor({infinity, -infinity, 1.0, -1.0}, at::kDouble).to(type()).reshape({1, 1, 4, 1});
  const at::Tensor key = at::ones({1, 3, 1}, options), value = at::ones({1, 1, 3, 1}, options);
  const auto output = [&](const ActivationArguments& activation) {
    return RunAs(variant(), StaticKeyCase({query, key, value}, activation, 1.0)).flatten();
  };
  EXPECT_TRUE(std::isnan(output({"softmax"})[0].item<double>()));
  EXPECT_EQ(output({"softmax"})[1].item<double>(), 0.0);
  EXPECT_EQ(output({"softmax"})[2].item<double>(), 1.0);
  EXPECT_EQ(output({"relu"})[0].item<double>(), infinity);
  EXPECT_EQ(output({"star_relu"})[0].item<double>(), infinity);
  EXPECT_EQ(output({"relu"})[1].item<double>(), 0.0);
  EXPECT_EQ(output({"star_relu", 2.0, 3.0})[1].item<double>(), 9.0);
  EXPECT_EQ(output({"star_relu", 2.0, 3.0})[2].item<double>(), 15.0);
  EXPECT_EQ(output({"star_relu", 2.0, 3.0})[3].item<double>(), 9.0);
}

INSTANTIATE_TEST_SUITE_P(Implementations, StaticKeysTest, testing::ValuesIn(EveryVariantAndType()),
                         NameOf);

}  // namespace
}  // namespace fovea::kernels
