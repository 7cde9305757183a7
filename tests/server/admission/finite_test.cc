#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "server/admission/request_rules.h"

namespace fovea {
namespace {

// `numbers` in pieces of random lengths, which need not be multiples of four.
ScatteredBytes Scatter(const std::vector<float>& numbers, std::mt19937& random, size_t longest) {
  auto bytes = std::make_shared<std::vector<std::byte>>(numbers.size() * sizeof(float));
  std::memcpy(bytes->data(), numbers.data(), bytes->size());
  std::vector<ScatteredBytes::Piece> pieces;
  for (size_t at = 0; at < bytes->size();) {
    const size_t length = std::min<size_t>(random() % (longest + 1), bytes->size() - at);
    pieces.emplace_back(bytes->data() + at, length);
    at += length;
  }
  return ScatteredBytes(std::move(pieces), bytes);
}

TEST(IsFinite, AcceptsEveryFiniteNumber) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> numbers = {0.f,
                                -0.f,
                                1.f,
                                Limits::max(),
                                Limits::lowest(),
                                Limits::min(),
                                Limits::denorm_min(),
                                -Limits::denorm_min()};
  std::mt19937 random(7);
  EXPECT_TRUE(IsFinite(Scatter(numbers, random, 64)));
  EXPECT_TRUE(IsFinite(Scatter(numbers, random, 3)));
  EXPECT_TRUE(IsFinite(ScatteredBytes()));
}

TEST(IsFinite, FindsOneBadNumberWhereverItStandsAndHoweverItIsCut) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  const float signalling = std::bit_cast<float>(0x7F800001u);
  for (const float bad : {std::nanf(""), -std::nanf(""), signalling, INFINITY, -INFINITY}) {
    for (const size_t count : {size_t{1}, size_t{5}, size_t{4096}, size_t{10'000}}) {
      std::vector<float> numbers(count);
      for (float& number : numbers) number = normal(random);
      for (const size_t at : {size_t{0}, count / 2, count - 1}) {
        std::vector<float> one_bad = numbers;
        one_bad[at] = bad;
        for (const size_t longest : {size_t{3}, size_t{7}, size_t{1000}, size_t{100'000}}) {
          EXPECT_FALSE(IsFinite(Scatter(one_bad, random, longest)))
              << count << " numbers, " << bad << " at " << at;
          EXPECT_TRUE(IsFinite(Scatter(numbers, random, longest)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea
