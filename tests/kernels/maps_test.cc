// Numbers and corner cases of window, criss-cross and axially expanded window attention, in every
// implementation.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/shared/cpu_windows.h"
#include "kernels/simd/gemm.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/map_cases.h"
#include "tests/kernels/scoped_choose.h"

namespace fovea::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor RandomBias(int64_t heads, Pair window) {
  const int64_t tokens = window[0] * window[1];
  return at::randn({heads, tokens, tokens});
}

class MapsNumbersTest : public NumbersTest {
 protected:
  static std::string Choosing(const std::string& way) {
    std::string choices;
    for (const char* question : {"fp32_n64", "fp32_n256", "bf16_n64", "bf16_n256"}) {
      choices += (choices.empty() ? "window_attention_" : ",window_attention_");
      choices += question + ("=" + way);
    }
    return choices;
  }
};
class MapsTest : public VariantTest {};

// What tiles do not take goes by panels without a word: tests that force tiles would pass.
TEST_P(MapsNumbersTest, TilesTakeWindowsOfModels) {
  if (!simd::HasAmxTiles()) GTEST_SKIP() << "this processor lacks AMX";
  const ScopedChoose forced(Choosing("tiles"));
  for (const auto& [tokens, dim] : {std::pair<int64_t, int64_t>{49, 32}, {64, 24}, {196, 32}}) {
    EXPECT_EQ(attend::FastestWindowsWay(type(), tokens, dim), AttentionWay::kTiles) << tokens;
  }
  // In fp32 tiles of half as many channels as a step has are not even asked about.
  EXPECT_EQ(attend::FastestWindowsWay(type(), 49, 16),
            type() == at::kFloat ? AttentionWay::kPanels : AttentionWay::kTiles);
}

TEST_P(MapsNumbersTest, ForcedWaysOfWindowsRoundDifferently) {
  if (!simd::HasAmxTiles()) GTEST_SKIP() << "this processor lacks AMX";
  const AttentionCase c = WindowCase(RandomMaps(1, 2, 14, 14, 32, type()), {7, 7}, {3, 3});
  const auto by = [&](const char* way) {
    const ScopedChoose forced(Choosing(way));
    return c.run(c.inputs);
  };
  EXPECT_FALSE(at::equal(by("tiles"), by("panels")));
}

TEST_P(MapsNumbersTest, EveryWindowShiftAndBiasIsRight) {
  const Pair size = {6, 8};
  const Tensors maps = RandomMaps(2, 3, size[0], size[1], 32, type());
  const std::vector<Pair> windows = {{2, 2}, {3, 4}, {1, 8}, {6, 1}, {2, 8},
                                     {6, 4}, {6, 8}, {1, 4}, {3, 1}, {1, 1}};
  for (const Pair window : windows) {
    for (const Pair shift :
         {Pair{0, 0}, {window[0] / 2, 0}, {0, window[1] - 1}, {window[0] - 1, window[1] / 2}}) {
      ExpectRight(WindowCase(maps, window, shift));
      ExpectRight(WindowCase(maps, window, shift, RandomBias(3, window)));
    }
  }
}

TEST_P(MapsNumbersTest, WindowsOfModelsAreRight) {
  // Swin's, at every place of its stages; rows, columns and stripes, longer than a block.
  ExpectRight(
      WindowCase(RandomMaps(1, 2, 14, 14, 32, type()), {7, 7}, {3, 3}, RandomBias(2, {7, 7})));
  ExpectRight(WindowCase(RandomMaps(1, 1, 28, 28, 16, type()), {7, 7}, {3, 3}));
  ExpectRight(WindowCase(RandomMaps(1, 1, 14, 14, 24, type()), {14, 14}, {0, 0}));
  ExpectRight(WindowCase(RandomMaps(1, 2, 3, 200, 32, type()), {1, 200}, {0, 0}));
  ExpectRight(WindowCase(RandomMaps(1, 2, 97, 3, 32, type()), {97, 1}, {0, 0}));
  ExpectRight(WindowCase(RandomMaps(1, 1, 12, 49, 16, type()), {2, 49}, {1, 0}));
}

// Slices of a shifted window do not see each other, whatever stands in them: the first three rows
// are a slice of their own.
TEST_P(MapsNumbersTest, AKeyThatIsNaNIsSeenInItsSliceOnly) {
  Tensors maps = RandomMaps(1, 2, 14, 14, 32, type());
  Tensors broken = maps;
  broken[1] = maps[1].clone();
  broken[1].select(2, 2).fill_(std::nan(""));
  for (const std::string way : {"panels", "tiles"}) {
    if (way == "tiles" && !simd::HasAmxTiles()) continue;
    const ScopedChoose forced(Choosing(way));
    for (const at::Tensor& bias : {at::Tensor(), RandomBias(2, {7, 7})}) {
      const AttentionCase whole = WindowCase(maps, {7, 7}, {3, 3}, bias);
      const AttentionCase with_nan = WindowCase(broken, {7, 7}, {3, 3}, bias);
      const at::Tensor output = with_nan.run(with_nan.inputs);
      EXPECT_TRUE(output.narrow(2, 0, 3).isnan().all().item<bool>()) << way;
      EXPECT_TRUE(at::equal(output.narrow(2, 3, 11), whole.run(whole.inputs).narrow(2, 3, 11)))
          << way;
    }
  }
}

TEST_P(MapsNumbersTest, AnyHeadSizeIsRight) {
  for (const int64_t dim : {1, 2, 7, 16, 24, 33, 80, 128}) {
    const Tensors maps = RandomMaps(1, 4, 4, 6, dim, type());
    ExpectRight(WindowCase(maps, {2, 3}, {1, 1}, RandomBias(4, {2, 3})));
    ExpectRight(WindowCase(maps, {1, 6}, {0, 0}));
    ExpectRight(CrissCrossCase(maps));
    ExpectRight(AxialCase(RandomAxial(1, 4, {4, 6}, dim, 3, true, true, type()), 3, 1));
  }
}

TEST_P(MapsNumbersTest, MapsMayLieInAnyWay) {
  // [B, heads, H, W, D], channels of all heads last, width before height.
  const Tensors heads_last = RandomMaps(2, 4, 6, 8, 32, type());
  Tensors heads_first, turned, cropped;
  for (const at::Tensor& t : heads_last) {
    heads_first.push_back(t.contiguous());
    turned.push_back(t.transpose(2, 3).contiguous().transpose(2, 3));
    cropped.push_back(at::constant_pad_nd(t, {0, 0, 1, 2, 1, 1}).narrow(2, 1, 6).narrow(3, 1, 8));
  }
  for (const Tensors& maps : {heads_first, turned, cropped}) {
    for (const Pair window : {Pair{3, 4}, {1, 8}, {6, 1}, {2, 8}, {6, 8}}) {
      ExpectRight(WindowCase(maps, window, {0, 0}));
    }
    ExpectRight(WindowCase(maps, {3, 4}, {1, 2}));
    ExpectRight(CrissCrossCase(maps));
    ExpectRight(AxialCase({maps[0], maps[1], maps[2], {}, {}, {}, {}, {}}, 3, 1));
  }
}

TEST_P(MapsNumbersTest, WindowBiasesMaskAndMayLieInAnyWay) {
  const Tensors maps = RandomMaps(2, 2, 6, 8, 32, type());
  const Pair window = {3, 4};
  at::Tensor bias = RandomBias(2, window).masked_fill(at::rand({2, 12, 12}).lt(0.3), kMasked);
  bias.select(1, 5).fill_(kMasked);  // place (1, 1) of each window sees nothing
  ExpectRight(WindowCase(maps, window, {0, 0}, bias));
  ExpectRight(WindowCase(maps, window, {2, 1}, bias));
  ExpectRight(WindowCase(maps, window, {1, 1}, RandomBias(2, window).transpose(1, 2)));
  ExpectRight(WindowCase(maps, window, {1, 1}, RandomBias(1, window).expand({2, 12, 12})));
  ExpectRight(WindowCase(maps, window, {1, 1}, RandomBias(2, window).to(type())));
}

TEST_P(MapsTest, RowsWithNaNOrInfinityInTheBiasAreNaN) {
  at::Tensor bias = at::zeros({2, 12, 12});
  bias[0][3][7] = std::nan("");
  bias[1][4].fill_(kMasked);
  bias[1][4][0] = kInfinity;
  const AttentionCase c = WindowCase(RandomMaps(1, 2, 6, 8, 32, type()), {3, 4}, {0, 0}, bias);
  const at::Tensor nan = RunAs(variant(), c).isnan();
  EXPECT_TRUE(nan.equal(Expected(c).value.isnan()));
  EXPECT_EQ(nan.sum().item<int64_t>(), 2 * 4 * 32);  // a place of each of four windows, twice
}

// Tokens from both ends of the map meet in the last window and do not see each other.
TEST_P(MapsTest, NothingPassesTheSeam) {
  const Tensors maps = RandomMaps(1, 1, 6, 8, 32, type());
  const AttentionCase before = WindowCase(maps, {3, 4}, {1, 2});
  AttentionCase after = before;
  after.inputs[2] = maps[2].clone();
  after.inputs[2].select(2, 0).add_(1.0);  // the first row's values
  const at::Tensor changed = RunAs(variant(), after).ne(RunAs(variant(), before)).any(-1)[0][0];
  EXPECT_TRUE(changed.select(0, 0).all().item<bool>());
  EXPECT_FALSE(changed.narrow(0, 1, 5).any().item<bool>());
}

TEST_P(MapsNumbersTest, CrissCrossIsRightOnEveryShape) {
  for (const Pair size :
       {Pair{1, 1}, {1, 7}, {7, 1}, {2, 2}, {5, 17}, {14, 14}, {33, 3}, {3, 97}}) {
    ExpectRight(CrissCrossCase(RandomMaps(2, 2, size[0], size[1], 16, type())));
    ExpectRight(CrissCrossCase(RandomMaps(1, 1, size[0], size[1], 32, type()), -1.0));
  }
}

TEST_P(MapsTest, CrissCrossCountsAPlaceItselfOnce) {
  // Every logit is 0: each of the H + W - 1 places weighs the same.
  const at::TensorOptions options = at::TensorOptions().dtype(type());
  const at::Tensor zeros = at::zeros({1, 1, 3, 4, 8}, options);
  at::Tensor value = zeros.clone();
  value[0][0][1][2].fill_(6.0);
  const at::Tensor output = RunAs(variant(), CrissCrossCase({zeros, zeros, value})).select(-1, 0);
  at::Tensor expected = at::zeros({3, 4}, options);
  expected.select(0, 1).fill_(1.0);
  expected.select(1, 2).fill_(1.0);
  EXPECT_TRUE(at::allclose(output[0][0], expected, 1e-6, 1e-2)) << output;
}

// A place whose row's or column's logits lie far from the others'.
TEST_P(MapsNumbersTest, CrissCrossMergesRowsAndColumnsOfAnySize) {
  for (const double factor : {30.0, -30.0, 3000.0}) {
    Tensors maps = RandomMaps(1, 2, 5, 6, 16, type());
    maps[1] = maps[1].clone();
    maps[1].select(2, 3).mul_(factor);
    ExpectRight(CrissCrossCase(maps));
  }
}

TEST_P(MapsNumbersTest, AxialWindowsAreRightWithPaddingShiftAndBias) {
  for (const Pair size : {Pair{6, 9}, {7, 5}, {2, 11}, {1, 1}, {14, 14}}) {
    for (const int64_t window : {1, 3, 7}) {
      for (const bool biases : {false, true}) {
        for (const bool pads : {false, true}) {
          const Tensors inputs = RandomAxial(2, 4, size, 32, window, biases, pads, type());
          ExpectRight(AxialCase(inputs, window, 0));
          if (window > 1) ExpectRight(AxialCase(inputs, window, window / 2));
        }
      }
    }
  }
}

TEST_P(MapsNumbersTest, EachAxialArgumentMayBeMissing) {
  const Tensors all = RandomAxial(1, 8, {5, 6}, 32, 4, true, true, type());
  for (size_t i = 3; i < all.size(); ++i) {
    Tensors without = all;
    without[i] = at::Tensor();
    ExpectRight(AxialCase(without, 4, 1));
  }
  Tensors narrow = all;
  for (size_t i = 3; i < 6; ++i) narrow[i] = all[i].to(type());
  ExpectRight(AxialCase(narrow, 4, 3));
}

// At padded places window heads see a logit of zero, unless a key is given there.
TEST_P(MapsTest, PaddedPlacesAreSeenByWindowHeadsOnly) {
  const at::TensorOptions options = at::TensorOptions().dtype(type());
  const at::Tensor zeros = at::zeros({1, 4, 2, 2, 32}, options), ones = at::ones_like(zeros);
  const at::Tensor output =
      RunAs(variant(), AxialCase({zeros, zeros, ones, {}, {}, {}, {}, {}}, 3, 0));
  EXPECT_TRUE(at::allclose(output.narrow(1, 0, 2), ones.narrow(1, 0, 2), 1e-2));
  const at::Tensor four_of_nine = at::full({1, 2, 2, 2, 32}, 4.0 / 9.0, options);
  EXPECT_TRUE(at::allclose(output.narrow(1, 2, 2), four_of_nine, 1e-2));
}

INSTANTIATE_TEST_SUITE_P(Types, MapsNumbersTest, VectorisedTypes(), TypeOf);
INSTANTIATE_TEST_SUITE_P(Implementations, MapsTest, testing::ValuesIn(EveryVariantAndType()),
                         NameOf);

}  // namespace
}  // namespace fovea::kernels
