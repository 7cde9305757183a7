#include "client/cpp/cli/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>

namespace fovea::client {
namespace {

Trial TrialOf(double latency_ms, double compute_ms, int64_t peak_bytes = 1000, int batch_size = 1) {
  return {absl::Milliseconds(latency_ms), absl::Milliseconds(compute_ms), peak_bytes, batch_size};
}

// Classes by index with these confidences, most probable first as given.
std::vector<ClassScore> Scores(const std::vector<std::pair<int, float>>& confidences) {
  std::vector<ClassScore> scores;
  for (auto [index, confidence] : confidences) {
    scores.push_back({.index = index, .confidence = confidence});
  }
  return scores;
}

Measured ModelWith(std::vector<Trial> trials, std::vector<std::vector<ClassScore>> opinions) {
  return {.model = {"m"}, .trials = std::move(trials), .opinions = std::move(opinions)};
}

constexpr int kAFewRounds = 20;

std::vector<Trial> Same(int rounds, double latency_ms, double compute_ms) {
  return std::vector<Trial>(rounds, TrialOf(latency_ms, compute_ms));
}

const std::vector<std::vector<ClassScore>> kOneOpinion = {Scores({{0, 0.9f}, {1, 0.1f}})};

// A regular order would let a machine that stalls in every second round stall the same request.
TEST(RoundOrder, PutsEachRequestAtEachPlaceEquallyOftenInRegularlyChosenRounds) {
  std::mt19937_64 random(1);
  std::array<std::array<int, 3>, 3> count{};
  for (int round = 0; round < 1200; ++round) {
    const std::vector<size_t> order = RoundOrder(3, random);
    if (round % 2 == 1) continue;
    for (size_t place = 0; place < 3; ++place) ++count[place][order[place]];
  }
  for (const auto& place : count) {
    for (int requests : place) EXPECT_NEAR(requests, 200, 4 * 11.5);  // sqrt(600 * 1/3 * 2/3)
  }
}

TEST(Comparison, MediansAndQuartilesAreOfTheTimes) {
  const auto comparison =
      Compare({ModelWith({TrialOf(10, 8), TrialOf(30, 20)}, kOneOpinion)}, Same(2, 1, 1));
  EXPECT_EQ(comparison.models[0].latency.ms, (Quartiles{15, 20, 25}));
  EXPECT_EQ(comparison.models[0].compute.ms, (Quartiles{11, 14, 17}));
  EXPECT_EQ(comparison.control_latency.ms, (Quartiles{1, 1, 1}));
  EXPECT_EQ(comparison.rounds, 2u);
}

TEST(Comparison, OfQuietTimesIsSettled) {
  const auto comparison = Compare({ModelWith(Same(kAFewRounds, 10, 4), kOneOpinion),
                                   ModelWith(Same(kAFewRounds, 20, 3), kOneOpinion),
                                   ModelWith(Same(kAFewRounds, 10, 4), kOneOpinion)},
                                  Same(kAFewRounds, 10, 4));
  EXPECT_EQ(comparison.models[1].latency.verdict, Verdict::kSlower);
  EXPECT_EQ(comparison.models[1].latency.ratio->value, 2);
  EXPECT_EQ(comparison.models[1].compute.verdict, Verdict::kFaster);
  EXPECT_EQ(comparison.models[2].latency.verdict, Verdict::kNoDifference);
  EXPECT_TRUE(comparison.settled());
}

TEST(Comparison, OfAFewRoundsHasNoVerdict) {
  const auto comparison =
      Compare({ModelWith(Same(19, 10, 4), kOneOpinion), ModelWith(Same(19, 20, 3), kOneOpinion)},
              Same(19, 10, 4));
  EXPECT_EQ(comparison.models[1].latency.verdict, Verdict::kFewRounds);
  EXPECT_FALSE(comparison.settled());
}

TEST(Comparison, WithoutComputeTimesIsSettledByLatencies) {
  const auto comparison = Compare({ModelWith(Same(kAFewRounds, 10, 0), kOneOpinion),
                                   ModelWith(Same(kAFewRounds, 20, 0), kOneOpinion)},
                                  Same(kAFewRounds, 10, 0));
  EXPECT_EQ(comparison.models[1].compute.verdict, Verdict::kNotMeasured);
  EXPECT_EQ(comparison.models[1].compute.ratio, std::nullopt);
  EXPECT_TRUE(comparison.settled());
}

TEST(Judge, GivesAVerdictWhereTheIntervalLiesBeyondTheControls) {
  const Estimate control{1, 0.99, 1.01, 50};
  EXPECT_EQ(Judge(Estimate{1.1, 1.08, 1.12, 50}, control), Verdict::kSlower);
  EXPECT_EQ(Judge(Estimate{0.9, 0.88, 0.92, 50}, control), Verdict::kFaster);
  EXPECT_EQ(Judge(Estimate{1, 0.99, 1.02, 50}, control), Verdict::kNoDifference);
  // Beyond 1, but not beyond what identical models differ by here.
  EXPECT_EQ(Judge(Estimate{1.01, 1.005, 1.02, 50}, control), Verdict::kNoDifference);
}

TEST(Judge, GivesNoneWhereTheControlIsOff) {
  const Estimate clear{2, 1.99, 2.01, 50};
  EXPECT_EQ(Judge(clear, Estimate{1.05, 1.01, 1.08, 50}), Verdict::kControlOff);
  EXPECT_EQ(Judge(clear, Estimate{0.95, 0.92, 0.99, 50}), Verdict::kControlOff);
}

TEST(Judge, GivesNoneWhereAnIntervalIsWide) {
  const Estimate good{1, 0.99, 1.01, 50};
  EXPECT_EQ(Judge(Estimate{3.32, 1.5, 6, 50}, good), Verdict::kWide);
  EXPECT_EQ(Judge(Estimate{3.32, 3.3, 3.4, 50}, Estimate{1, 0.9, 1.1, 50}), Verdict::kWide);
}

TEST(Judge, GivesNoneWhereRoundsHangTogether) {
  const Estimate good{1, 0.99, 1.01, 50};
  EXPECT_EQ(Judge(Estimate{2, 1.99, 2.01, 9}, good), Verdict::kUnsteady);
  EXPECT_EQ(Judge(good, Estimate{1, 0.99, 1.01, 9}), Verdict::kUnsteady);
}

// What a machine does to the times of a round's requests.
class Machine {
 public:
  virtual ~Machine() = default;
  // Milliseconds of a request that would take 10 on a quiet machine; called in order of sending.
  virtual double Time(int round, std::mt19937_64& random) = 0;
};

double Jitter(double share, std::mt19937_64& random) {
  return std::exp(std::normal_distribution(0.0, share)(random));
}

// Three times slower in the middle third of the rounds.
class SlowInTheMiddle : public Machine {
  double Time(int round, std::mt19937_64& random) override {
    return (round / 67 == 1 ? 30 : 10) * Jitter(0.05, random);
  }
};

// Four times slower at the end than at the start.
class Drifting : public Machine {
  double Time(int round, std::mt19937_64& random) override {
    return 10 * std::pow(4, round / 200.0) * Jitter(0.05, random);
  }
};

// One request in ten is delayed, some a hundredfold.
class HeavyTailed : public Machine {
  double Time(int, std::mt19937_64& random) override {
    const double uniform = std::uniform_real_distribution(0.0, 1.0)(random);
    return 10 * Jitter(0.05, random) * (uniform < 0.1 ? 0.1 / (uniform + 1e-3) : 1);
  }
};

// Its speed wanders; each request finds it where the last one left it.
class Wandering : public Machine {
  double Time(int, std::mt19937_64& random) override {
    log_speed_ = 0.9 * log_speed_ + std::normal_distribution(0.0, 0.1)(random);
    return 10 * std::exp(log_speed_);
  }
  double log_speed_ = 0;
};

// The second of two models takes `ratio` times as long as the first, which is its own control.
Comparison CompareOn(Machine& machine, double ratio, uint64_t seed) {
  std::mt19937_64 random(seed);
  const double factor[] = {1, ratio, 1};
  std::vector<Trial> trials[3];
  for (int round = 0; round < 200; ++round) {
    for (const size_t request : RoundOrder(3, random)) {
      trials[request].push_back(TrialOf(factor[request] * machine.Time(round, random), 0));
    }
  }
  return Compare({ModelWith(trials[0], kOneOpinion), ModelWith(trials[1], kOneOpinion)}, trials[2]);
}

class OnAMachine : public ::testing::TestWithParam<std::function<std::unique_ptr<Machine>()>> {
 protected:
  // Of 25 comparisons how many come to each verdict.
  std::map<Verdict, int> Verdicts(double ratio) {
    std::map<Verdict, int> verdicts;
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      ++verdicts[CompareOn(*GetParam()(), ratio, seed).models[1].latency.verdict];
    }
    return verdicts;
  }
};

TEST_P(OnAMachine, ADifferenceIsFound) {
  auto verdicts = Verdicts(1.2);
  EXPECT_GE(verdicts[Verdict::kSlower], 20);
  EXPECT_EQ(verdicts[Verdict::kFaster], 0);
}

TEST_P(OnAMachine, AModelIsNotFoundDifferentFromItself) {
  auto verdicts = Verdicts(1);
  EXPECT_GE(verdicts[Verdict::kNoDifference], 20);
  EXPECT_LE(verdicts[Verdict::kFaster] + verdicts[Verdict::kSlower], 1);
}

INSTANTIATE_TEST_SUITE_P(Disturbed, OnAMachine,
                         ::testing::Values([] { return std::make_unique<SlowInTheMiddle>(); },
                                           [] { return std::make_unique<Drifting>(); },
                                           [] { return std::make_unique<HeavyTailed>(); },
                                           [] { return std::make_unique<Wandering>(); }));

// The same model gets other times for minutes on end, as when its threads share a core with another
// program: nothing that is measured here says how long that lasts.
TEST(Comparison, OfAModelWhoseTimesWanderByThemselvesHasNoVerdict) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Trial> model;
    double log_ratio = 0;
    for (int round = 0; round < 200; ++round) {
      log_ratio = 0.99 * log_ratio + std::normal_distribution(0.0, 0.1)(random);
      model.push_back(TrialOf(10 * std::exp(log_ratio), 0));
    }
    const auto comparison =
        Compare({ModelWith(Same(200, 10, 0), kOneOpinion), ModelWith(model, kOneOpinion)},
                Same(200, 10, 0));
    EXPECT_FALSE(IsVerdict(comparison.models[1].latency.verdict)) << seed;
  }
}

TEST(Comparison, PeakAndBatchAreTheLargestSeen) {
  const auto comparison =
      Compare({ModelWith({TrialOf(1, 1, 500, 1), TrialOf(1, 1, 900, 3), TrialOf(1, 1, 700, 2)},
                         kOneOpinion)},
              Same(3, 1, 1));
  EXPECT_EQ(comparison.models[0].peak_bytes, 900);
  EXPECT_EQ(comparison.models[0].largest_batch, 3);
}

TEST(Comparison, CountsImagesWithTheSameMostProbableClass) {
  const auto cat = Scores({{0, 0.75f}, {1, 0.25f}});
  const auto dog = Scores({{1, 0.5f}, {0, 0.5f}});
  const auto rows = Compare({ModelWith({}, {cat, cat, dog}), ModelWith({}, {cat, dog, dog})}, {});
  EXPECT_EQ(rows.models[0].images_agreeing, 3u);
  EXPECT_EQ(rows.models[1].images_agreeing, 2u);
  EXPECT_EQ(rows.models[1].top1[1].index, 1);
  // Class 1 of the second image: 0.25 and 0.5. Classes are compared by index, not by place.
  EXPECT_EQ(rows.models[1].max_confidence_difference, 0.25);
}

TEST(Comparison, OfModelsWithOtherClassesHasNoConfidenceDifference) {
  const auto two = Scores({{0, 0.75f}, {1, 0.25f}});
  for (const auto& other : {Scores({{0, 1.0f}}), Scores({{0, 0.75f}, {2, 0.25f}})}) {
    const auto rows = Compare({ModelWith({}, {two}), ModelWith({}, {other})}, {});
    EXPECT_EQ(rows.models[1].max_confidence_difference, std::nullopt);
  }
}

}  // namespace
}  // namespace fovea::client
