// Series with known means, drawn from fixed seeds and looked at after each number: how often the
// truth is missed ever.
#include "base/sequential.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>

namespace fovea {
namespace {

constexpr double kError = 0.05;

using Draw = std::function<double(std::mt19937_64&)>;

// So many standard deviations above the expected share: a test that fails by chance does so for
// less than one seed in ten thousand.
double Slack(double share, int series) { return 4 * std::sqrt(share * (1 - share) / series); }

// Numbers of mean 0 in which neighbours correlate by `correlation`; of heavy tails with `heavy`.
class Series {
 public:
  Series(double correlation, bool heavy, uint64_t seed)
      : correlation_(correlation), heavy_(heavy), random_(seed) {
    for (int i = 0; i < 100; ++i) (*this)();
  }
  double operator()() {
    const double noise = heavy_ ? std::student_t_distribution(4.0)(random_)
                                : std::normal_distribution(0.0, 1.0)(random_);
    return value_ = correlation_ * value_ + noise;
  }

 private:
  const double correlation_;
  const bool heavy_;
  std::mt19937_64 random_;
  double value_ = 0;
};

bool Holds(const AnytimeInterval& interval, double truth) {
  return interval.lower <= truth && truth <= interval.upper;
}

struct Missed {
  double ever = 0;      // the share of series in which the truth was outside at any look
  double textbook = 0;  // the same of the interval that is made for one look
};

// Looks at each of `series` series of `numbers` after every number.
Missed Look(double correlation, bool heavy, int series = 400, int numbers = 4000) {
  Missed missed;
  for (int i = 0; i < series; ++i) {
    Series draw(correlation, heavy, 1000 + i);
    SequentialMean mean;
    bool ever = false, textbook = false;
    double sum = 0, squares = 0;
    for (int n = 1; n <= numbers; ++n) {
      const double value = draw();
      mean.Add(value);
      ever = ever || !Holds(mean.Interval(kError), 0);
      sum += value;
      squares += value * value;
      if (n < 80) continue;  // as the other one
      const double deviation = std::sqrt((squares - sum * sum / n) / (n - 1));
      textbook = textbook || std::abs(sum / n) > 1.96 * deviation / std::sqrt(n);
    }
    missed.ever += 1.0 / series * ever;
    missed.textbook += 1.0 / series * textbook;
  }
  return missed;
}

TEST(SequentialMean, IsSeldomOutsideHoweverOftenItIsLookedAt) {
  const Missed missed = Look(/*correlation=*/0, /*heavy=*/false);
  EXPECT_LE(missed.ever, kError);
  EXPECT_GT(missed.textbook, 1.0 / 3) << "one who looks often needs another interval";
}

TEST(SequentialMean, HoldsForHeavyTails) {
  EXPECT_LE(Look(/*correlation=*/0, /*heavy=*/true).ever, kError);
}

TEST(SequentialMean, HoldsWhereNeighboursDependOnEachOther) {
  const Missed missed = Look(/*correlation=*/0.5, /*heavy=*/false);
  EXPECT_LE(missed.ever, kError);
  EXPECT_GT(missed.textbook, 6 * kError);
}

// Where they depend a lot the first blocks are autocorrelated: what the header warns of.
TEST(SequentialMean, MissesMoreOftenWhereTheyAreAutocorrelatedForLong) {
  EXPECT_LE(Look(/*correlation=*/0.8, /*heavy=*/false).ever, 1.5 * kError);
  EXPECT_GT(Look(/*correlation=*/0.95, /*heavy=*/false).ever, 6 * kError);
}

// By how much it is wider than the interval that is made for one look, at the error that each of an
// experiment's three tests of its one arm has by default. FOVEA_PRINT_WIDTHS=1 prints it.
TEST(SequentialMean, IsWiderThanTheTextbooksByLessTheMoreNumbersThereAre) {
  struct Expected {
    int numbers;
    double least, most;
  };
  for (const auto& [numbers, least, most] :
       {Expected{100, 8.0, 9.5}, {200, 2.1, 2.7}, {500, 1.8, 2.3}, {1000, 1.8, 2.3}}) {
    double ours = 0, textbook = 0;
    for (int i = 0; i < 400; ++i) {
      Series draw(/*correlation=*/0, /*heavy=*/false, 1000 + i);
      SequentialMean mean;
      double sum = 0, squares = 0;
      for (int n = 0; n < numbers; ++n) {
        const double value = draw();
        mean.Add(value);
        sum += value;
        squares += value * value;
      }
      const AnytimeInterval interval = mean.Interval(kError / 3);
      ours += interval.upper - interval.lower;
      textbook += 2 * 1.96 * std::sqrt((squares - sum * sum / numbers) / (numbers - 1) / numbers);
    }
    EXPECT_GT(ours / textbook, least) << numbers;
    EXPECT_LT(ours / textbook, most) << numbers;
    if (std::getenv("FOVEA_PRINT_WIDTHS") != nullptr) {
      std::printf("%d numbers: %.1f times as wide\n", numbers, ours / textbook);
    }
  }
}

TEST(SequentialMean, ClosesInOnAnyDifference) {
  Series noise(0, false, 1);
  SequentialMean mean;
  double width = std::numeric_limits<double>::infinity();
  for (const int numbers : {200, 2'000, 20'000, 200'000}) {
    while (mean.count() < static_cast<uint64_t>(numbers)) mean.Add(3 + noise());
    const AnytimeInterval now = mean.Interval(kError);
    EXPECT_TRUE(Holds(now, 3)) << now.lower << " to " << now.upper;
    EXPECT_NEAR(now.estimate, 3, 0.3);
    EXPECT_LT(now.upper - now.lower, 0.6 * width);  // 0.32 of it, but for what longer blocks cost
    width = now.upper - now.lower;
  }
  EXPECT_LT(width, 0.04);
}

// Blocks become longer again and again: what is spent each time adds up to the error. A large one,
// so that few series show it: where each spends all of it, more than a third are missed.
TEST(SequentialMean, SpendsItsErrorOnceHoweverLongTheSeries) {
  constexpr double kLarge = 0.3;
  constexpr int kSeries = 300, kNumbers = 1 << 18;
  int missed = 0;
  for (uint64_t series = 1; series <= kSeries; ++series) {
    uint64_t random = 0x9E3779B97F4A7C15 * series;
    SequentialMean mean;
    bool ever = false;
    for (int n = 1, look = 80; n <= kNumbers; ++n) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      mean.Add(static_cast<double>(static_cast<int64_t>(random)));
      if (n < look) continue;
      ever = ever || !Holds(mean.Interval(kLarge), 0);
      look = n + std::max(16, n / 64);  // at every block
    }
    missed += ever;
  }
  EXPECT_LE(missed, kLarge * kSeries);
}

TEST(SequentialMean, SaysNothingOfAFewNumbers) {
  SequentialMean mean;
  const auto unbounded = [&] {
    const AnytimeInterval now = mean.Interval(kError);
    return std::isinf(now.lower) && std::isinf(now.upper);
  };
  EXPECT_TRUE(unbounded());
  for (size_t i = 0; i + 1 < SequentialMean::kFirstBlock * SequentialMean::kLeastBlocks; ++i) {
    mean.Add(static_cast<double>(i % 3));
    EXPECT_TRUE(unbounded());
  }
  mean.Add(1);
  EXPECT_FALSE(unbounded());
}

TEST(SequentialMean, OfNumbersThatAreAllTheSameIsThatNumber) {
  SequentialMean mean;
  for (int i = 0; i < 100; ++i) mean.Add(2.5);
  EXPECT_EQ(mean.Interval(kError).lower, 2.5);
  EXPECT_EQ(mean.Interval(kError).upper, 2.5);
}

// The same of numbers in [least, most].
double EverMissed(double least, double most, double truth, const Draw& draw, int series = 400,
                  int numbers = 4000) {
  double missed = 0;
  for (int i = 0; i < series; ++i) {
    std::mt19937_64 random(1000 + i);
    BoundedSequentialMean mean(least, most, kError);
    bool ever = false;
    for (int n = 0; n < numbers; ++n) {
      mean.Add(draw(random));
      ever = ever || !Holds(mean.Interval(), truth);
    }
    missed += 1.0 / series * ever;
  }
  return missed;
}

TEST(BoundedSequentialMean, IsSeldomOutsideHoweverOftenItIsLookedAt) {
  for (const double share : {0.001, 0.02, 0.3}) {
    const Draw draw = [share](auto& random) {
      return std::bernoulli_distribution(share)(random) ? 1.0 : 0.0;
    };
    EXPECT_LE(EverMissed(0, 1, share, draw), kError + Slack(kError, 400)) << share;
  }
  const Draw uniform = [](auto& random) {
    return std::uniform_real_distribution(-1.0, 1.0)(random);
  };
  EXPECT_LE(EverMissed(-1, 1, 0, uniform), kError + Slack(kError, 400));
}

// What comes next may follow from what was, as long as its mean does not.
TEST(BoundedSequentialMean, HoldsWhereTheSpreadFollowsFromWhatCameBefore) {
  double before = 0;
  const Draw draw = [&before](auto& random) {
    const double reach = std::abs(before) > 0.5 ? 0.1 : 1.0;
    return before = std::uniform_real_distribution(-reach, reach)(random);
  };
  EXPECT_LE(EverMissed(-1, 1, 0, draw), kError + Slack(kError, 400));
}

TEST(BoundedSequentialMean, ClosesInOnAShareQuicklyWhereNothingIsSeen) {
  BoundedSequentialMean mean(0, 1, kError);
  EXPECT_EQ(mean.Interval().lower, 0);
  EXPECT_EQ(mean.Interval().upper, 1);
  for (int i = 0; i < 300; ++i) mean.Add(0);
  EXPECT_EQ(mean.Interval().lower, 0);
  EXPECT_LT(mean.Interval().upper, 0.05);
  EXPECT_EQ(mean.Interval().estimate, 0);
}

TEST(BoundedSequentialMean, SeesAShareThatIsThere) {
  std::mt19937_64 random(1);
  BoundedSequentialMean mean(0, 1, kError);
  for (int i = 0; i < 2000; ++i) mean.Add(std::bernoulli_distribution(0.3)(random) ? 1 : 0);
  EXPECT_GT(mean.Interval().lower, 0.2);
  EXPECT_LT(mean.Interval().upper, 0.4);
  EXPECT_NEAR(mean.Interval().estimate, 0.3, 0.05);
}

}  // namespace
}  // namespace fovea
