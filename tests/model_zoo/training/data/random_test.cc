#include "model_zoo/training/data/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

namespace fovea::models::training {
namespace {

using ::testing::Each;

// The vectors of Random123 1.14, kat_vectors, "philox4x32 10".
TEST(PhiloxTest, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, NoBlockIsSharedBetweenStreamsIndicesOrSeeds) {
  std::set<std::array<uint32_t, 4>> blocks;
  int drawn = 0;
  for (uint64_t seed : {1, 2}) {
    for (uint32_t stream : {1u, 2u, 3u}) {
      // Across the boundary of the index's two words as well.
      for (uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{0xffffffff}, uint64_t{1} << 32}) {
        Random random(seed, stream, index);
        for (int block = 0; block < 64; ++block, ++drawn) {
          std::array<uint32_t, 4> words;
          for (uint32_t& word : words) word = random.Next();
          blocks.insert(words);
        }
      }
    }
  }
  EXPECT_EQ(blocks.size(), static_cast<size_t>(drawn));
}

TEST(RandomTest, BelowReachesEveryNumberEquallyOften) {
  Random random(7, 1, 0);
  std::array<int, 10> counts{};
  for (int i = 0; i < 100'000; ++i) ++counts.at(random.Below(10));
  // Five deviations of a binomial count: 5 * sqrt(100000 * 0.1 * 0.9) = 474.
  EXPECT_THAT(counts, Each(::testing::AllOf(::testing::Gt(9'526), ::testing::Lt(10'474))));
}

TEST(RandomTest, UniformStaysWithinItsBounds) {
  Random random(7, 1, 1);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const float value = random.Uniform(-2, 4);
    ASSERT_GE(value, -2);
    ASSERT_LT(value, 4);
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 1.0, 0.03);
}

}  // namespace
}  // namespace fovea::models::training
