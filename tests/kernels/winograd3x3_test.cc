// Winograd's 3x3 convolution against the direct sum in double, for every instruction set of this
// machine.
#include "kernels/vision/winograd3x3/winograd3x3.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/simd/isa.h"

namespace fovea::kernels {
namespace {

at::Tensor Normal(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

struct Shape {
  int64_t images, in, out, height, width;
};

// Odd sides, whose last tiles are half outside; outputs that fill no panel; several blocks of
// tiles.
constexpr Shape kShapes[] = {{1, 32, 32, 16, 16},   {2, 48, 33, 17, 19},   {1, 64, 96, 15, 40},
                             {3, 160, 45, 16, 17},  {1, 1024, 32, 16, 16}, {1, 32, 32, 1, 127},
                             {1, 256, 819, 16, 16}, {1, 512, 64, 31, 33}};

class Winograd3x3Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (simd::BestIsa() == simd::Isa::kNone) GTEST_SKIP() << "no AVX2";
  }

  // Runs `check` with each instruction set.
  template <typename Check>
  static void ForEachIsa(Check check) {
    for (const simd::Isa isa : {simd::Isa::kAvx2, simd::Isa::kAvx512}) {
      if (isa > simd::BestIsa()) continue;
      const simd::ScopedIsa scoped(isa);
      SCOPED_TRACE(std::string(simd::IsaName(isa)));
      check();
    }
  }
};

// Unit roundoffs that an output may be off by, of the largest sum of absolute products in the map.
// An output adds nine points; each is a sum of products of transformed inputs and weights, whose
// roundings fall at random. That so few suffice was seen, not derived: WholeNumbersAreExact, which
// has no slack, tells a wrong tap.
constexpr double kRoundings = 8;

TEST_F(Winograd3x3Test, IsTheDirectSum) {
  ForEachIsa([] {
    for (const auto& [images, in, out, height, width] : kShapes) {
      ASSERT_TRUE(Winograd3x3Takes(in, out, height, width));
      const at::Tensor weight = Normal({out, in, 3, 3}, 1) / std::sqrt(9.0 * in);
      const at::Tensor map = Normal({images, in, height, width}, 2);
      const at::Tensor bias = Normal({out}, 3);
      const at::Tensor packed = PackWinograd3x3(weight);
      const auto direct = [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
        return at::conv2d(x.to(at::kDouble), w.to(at::kDouble), b, 1, 1);
      };
      const at::Tensor expected = direct(map, weight, bias.to(at::kDouble));
      const double bound =
          kRoundings * 0x1p-24 * direct(map.abs(), weight.abs(), at::Tensor()).max().item<double>();
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const at::Tensor actual = Winograd3x3(map.contiguous(format), packed, bias, out);
        ASSERT_EQ(actual.sizes(), expected.sizes());
        EXPECT_TRUE(actual.is_contiguous(at::MemoryFormat::ChannelsLast));
        EXPECT_LE((actual.to(at::kDouble) - expected).abs().max().item<double>(), bound)
            << in << " to " << out << ", " << height << "x" << width;
      }
      const at::Tensor no_bias = Winograd3x3(map, packed, std::nullopt, out);
      EXPECT_LE((no_bias.to(at::kDouble) + bias.view({1, -1, 1, 1}) - expected)
                    .abs()
                    .max()
                    .item<double>(),
                bound);
    }
  });
}

// Small whole numbers are exact in any order of summation (the transformed weights are quarters):
// each output has its own taps, none twice and none left out.
TEST_F(Winograd3x3Test, WholeNumbersAreExact) {
  ForEachIsa([] {
    for (const auto& [images, in, out, height, width] : kShapes) {
      const at::Tensor weight = (2 * Normal({out, in, 3, 3}, 4)).round();
      const at::Tensor map = (2 * Normal({images, in, height, width}, 5)).round();
      const at::Tensor actual = Winograd3x3(map, PackWinograd3x3(weight), std::nullopt, out);
      const at::Tensor expected =
          at::conv2d(map.to(at::kDouble), weight.to(at::kDouble), {}, 1, 1).to(at::kFloat);
      EXPECT_TRUE(at::equal(actual, expected)) << in << " to " << out;
    }
  });
}

// To the last bit, and with any number of threads.
TEST_F(Winograd3x3Test, AnImageDoesNotDependOnItsNeighbours) {
  ForEachIsa([] {
    const at::Tensor packed = PackWinograd3x3(Normal({40, 64, 3, 3}, 6));
    const at::Tensor maps = Normal({3, 64, 21, 23}, 7);
    const at::Tensor together = Winograd3x3(maps, packed, std::nullopt, 40);
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(at::equal(Winograd3x3(maps.narrow(0, i, 1), packed, std::nullopt, 40),
                            together.narrow(0, i, 1)));
    }
    const int threads = at::get_num_threads();
    at::set_num_threads(threads == 1 ? 2 : 1);
    EXPECT_TRUE(at::equal(Winograd3x3(maps, packed, std::nullopt, 40), together));
    at::set_num_threads(threads);
  });
}

TEST_F(Winograd3x3Test, SaysWhatItTakes) {
  EXPECT_TRUE(Winograd3x3Takes(64, 64, 16, 16));
  EXPECT_FALSE(Winograd3x3Takes(64, 64, 14, 14)) << "a small map";
  EXPECT_FALSE(Winograd3x3Takes(40, 64, 32, 32)) << "channels in parts of a vector";
  EXPECT_FALSE(Winograd3x3Takes(64, 16, 32, 32)) << "few outputs";
  const at::Tensor packed = PackWinograd3x3(Normal({64, 64, 3, 3}, 8));
  const auto refused = [&](const at::Tensor& map, int64_t out) {
    EXPECT_THROW(Winograd3x3(map, packed, std::nullopt, out), c10::Error);
  };
  refused(Normal({1, 64, 8, 8}, 1), 64);
  refused(Normal({1, 48, 32, 32}, 1), 64);
  refused(Normal({1, 64, 32, 32}, 1), 128);
  refused(Normal({1, 64, 32, 32}, 1).to(at::kBFloat16), 64);
  EXPECT_THROW(Winograd3x3(Normal({1, 64, 32, 32}, 1), packed, Normal({63}, 1), 64), c10::Error);
  EXPECT_THROW(PackWinograd3x3(Normal({64, 64, 1, 1}, 1)), c10::Error);
  const simd::ScopedIsa none(simd::Isa::kNone);
  EXPECT_FALSE(Winograd3x3Takes(64, 64, 32, 32));
}

}  // namespace
}  // namespace fovea::kernels
