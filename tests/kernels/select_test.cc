// select.h on the host: the arithmetic that the CUDA kernel runs, against sorting.
#include "kernels/attention/shared/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace fovea::kernels::knn {
namespace {

Moments MomentsOf(const std::vector<float>& row) {
  Moments m;
  for (const float s : row) {
    if (!std::isfinite(s)) continue;
    ++m.count;
    m.sum += s;
    m.squares += s * s;
    m.smallest = std::min(m.smallest, s);
    m.largest = std::max(m.largest, s);
  }
  return m;
}

template <int kGuesses>
void CountOnce(const std::vector<float>& row, ThresholdSearch& search) {
  Neighbours found[kGuesses];
  for (int i = 0; i < kGuesses; ++i) {
    for (const float s : row) found[i].Count(s, search.Guess(i - kGuesses / 2));
  }
  search.Observe(found);
}

struct Selection {
  std::vector<bool> taken;
  int rounds;
};

// kGuesses: in a round.
template <int kGuesses = 1>
Selection Select(const std::vector<float>& row, int64_t k) {
  ThresholdSearch search(k, MomentsOf(row));
  while (!search.Done()) {
    CountOnce<kGuesses>(row, search);
    if (search.Rounds() > 1000) break;
  }
  Selection selection{{}, search.Rounds()};
  int32_t equal_before = 0;
  for (const float s : row) {
    selection.taken.push_back(!IsLeftOut(s, search.Threshold(), equal_before, search.Ties()));
    equal_before += s == search.Threshold();
  }
  return selection;
}

std::vector<bool> Sorted(const std::vector<float>& row, int64_t k) {
  std::vector<size_t> order(row.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return row[a] > row[b]; });
  std::vector<bool> taken(row.size(), false);
  for (int64_t i = 0; i < k; ++i) {
    if (std::isfinite(row[order[i]])) taken[order[i]] = true;
  }
  return taken;
}

struct Distribution {
  std::string name;
  std::function<float(std::mt19937&)> draw;
};

std::vector<Distribution> Distributions() {
  const auto normal = [](std::mt19937& g) { return std::normal_distribution<float>()(g); };
  const auto uniform = [](std::mt19937& g) { return std::uniform_real_distribution<float>()(g); };
  return {
      {"normal", normal},
      {"shifted", [=](std::mt19937& g) { return 1000.0f + normal(g); }},
      {"lognormal", [=](std::mt19937& g) { return std::exp(normal(g)); }},
      {"log-spaced", [=](std::mt19937& g) { return std::exp2(uniform(g) * 240.0f - 120.0f); }},
      {"signed log-spaced",
       [=](std::mt19937& g) {
         return std::copysign(std::exp2(uniform(g) * 240.0f - 120.0f), normal(g));
       }},
      {"integers", [=](std::mt19937& g) { return std::round(2.0f * normal(g)); }},
      {"two values", [=](std::mt19937& g) { return uniform(g) < 0.3f ? 1.0f : -1.0f; }},
      {"constant", [](std::mt19937&) { return 0.25f; }},
      {"signed zeros", [=](std::mt19937& g) { return std::copysign(0.0f, normal(g)); }},
      {"denormal", [=](std::mt19937& g) { return 1e-40f * normal(g); }},
      {"enormous", [=](std::mt19937& g) { return 1e38f * std::tanh(normal(g)); }},
      {"mostly masked", [=](std::mt19937& g) { return uniform(g) < 0.8f ? -INFINITY : normal(g); }},
  };
}

TEST(SelectTest, TakesWhatAStableSortTakes) {
  std::mt19937 generator(7);
  for (const Distribution& distribution : Distributions()) {
    for (const int64_t n : {1, 2, 3, 7, 49, 197, 784}) {
      for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<float> row(n);
        for (float& s : row) s = distribution.draw(generator);
        for (const int64_t k : {int64_t{1}, n / 10 + 1, (n + 1) / 2, n - n / 7, n}) {
          SCOPED_TRACE(testing::Message() << distribution.name << ", n " << n << ", k " << k);
          ASSERT_EQ(Select<1>(row, k).taken, Sorted(row, k));
          ASSERT_EQ(Select<3>(row, k).taken, Sorted(row, k));
        }
      }
    }
  }
}

TEST(SelectTest, EndsWithinTheBoundOfBisection) {
  std::mt19937 generator(11);
  int most = 0;
  for (const Distribution& distribution : Distributions()) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<float> row(784);
      for (float& s : row) s = distribution.draw(generator);
      const int64_t k = 1 + generator() % 784;
      most = std::max({most, Select<1>(row, k).rounds, Select<3>(row, k).rounds});
    }
  }
  EXPECT_LE(most, kMostRounds);
}

TEST(SelectTest, NormalRowsTakeAHandfulOfRounds) {
  std::mt19937 generator(13);
  std::normal_distribution<float> normal;
  double rounds = 0;
  double rounds_of_three = 0;
  constexpr int kRows = 500;
  for (int i = 0; i < kRows; ++i) {
    std::vector<float> row(784);
    for (float& s : row) s = normal(generator);
    rounds += Select<1>(row, 392).rounds;
    rounds_of_three += Select<3>(row, 392).rounds;
  }
  EXPECT_LE(rounds / kRows, 4.5);
  EXPECT_LE(rounds_of_three / kRows, 3.5) << "three guesses at once";
}

TEST(SelectTest, ARowWithoutAFiniteLogitTakesNothing) {
  const std::vector<float> row(9, -INFINITY);
  const Selection selection = Select(row, 4);
  EXPECT_EQ(selection.rounds, 0);
  EXPECT_EQ(std::count(selection.taken.begin(), selection.taken.end(), true), 0);
}

TEST(SelectTest, TheNormalQuantileIsWithinItsBound) {
  for (double p = 0.0005; p < 0.9996; p += 0.0005) {
    const double x = NormalQuantile(static_cast<float>(p));
    EXPECT_NEAR(0.5 * std::erfc(-x / std::sqrt(2.0)), p, 2e-4) << p;
  }
}

TEST(SelectTest, TheOrderOfFloatsIsKept) {
  const std::vector<float> sorted = {-INFINITY, -3e38f, -1.0f, -1e-45f, 0.0f,
                                     1e-45f,    1.0f,   3e38f, INFINITY};
  for (size_t i = 0; i < sorted.size(); ++i) {
    EXPECT_EQ(FloatAt(OrderOf(sorted[i])), sorted[i]);
    if (i > 0) {
      EXPECT_LT(OrderOf(sorted[i - 1]), OrderOf(sorted[i]));
    }
  }
  EXPECT_EQ(OrderOf(-0.0f), OrderOf(0.0f));
}

}  // namespace
}  // namespace fovea::kernels::knn
