#include "server/compare/live/traffic_split.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace fovea {
namespace {

constexpr int kKeys = 20'000;

std::string Key(int i) { return absl::StrCat("caller-", i); }

// How many keys each arm has.
std::vector<int> Shares(const TrafficSplit& split, size_t arms) {
  std::vector<int> shares(arms);
  for (int i = 0; i < kKeys; ++i) ++shares[split.Choose(Key(i))];
  return shares;
}

// Of a binomial: a share that is off by so many standard deviations is no chance.
double Slack(double share) { return 5 * std::sqrt(share * (1 - share) * kKeys); }

TEST(TrafficSplit, SharesKeysOutByWeight) {
  const TrafficSplit split("trial", {{"a", 6}, {"b", 3}, {"c", 1}});
  const std::vector<int> shares = Shares(split, 3);
  EXPECT_NEAR(shares[0], 0.6 * kKeys, Slack(0.6));
  EXPECT_NEAR(shares[1], 0.3 * kKeys, Slack(0.3));
  EXPECT_NEAR(shares[2], 0.1 * kKeys, Slack(0.1));
}

TEST(TrafficSplit, SharesThoseWithoutAKeyOutByWeight) {
  const TrafficSplit split("trial", {{"a", 9}, {"b", 1}});
  int of_b = 0;
  for (uint64_t draw = 0; draw < kKeys; ++draw) of_b += split.Choose(draw) == 1;
  EXPECT_NEAR(of_b, 0.1 * kKeys, Slack(0.1));
}

TEST(TrafficSplit, AKeyStaysWhereItIs) {
  const TrafficSplit split("trial", {{"a", 1}, {"b", 1}});
  const TrafficSplit again("trial", {{"a", 1}, {"b", 1}});
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(split.Choose(Key(i)), again.Choose(Key(i)));
}

TEST(TrafficSplit, AnArmWithoutWeightGetsNothing) {
  const TrafficSplit split("trial", {{"a", 1}, {"b", 0}});
  EXPECT_EQ(Shares(split, 2)[1], 0);
}

TEST(TrafficSplit, AWeightThatGrowsMovesKeysOnlyToItsArm) {
  const TrafficSplit before("trial", {{"a", 8}, {"b", 1}, {"c", 1}});
  const TrafficSplit after("trial", {{"a", 8}, {"b", 4}, {"c", 1}});
  int moved = 0;
  for (int i = 0; i < kKeys; ++i) {
    const size_t was = before.Choose(Key(i)), is = after.Choose(Key(i));
    if (was == is) continue;
    EXPECT_EQ(is, 1u) << Key(i);
    ++moved;
  }
  // From a tenth to four thirteenths, and no key more.
  EXPECT_NEAR(moved, (4.0 / 13 - 0.1) * kKeys, Slack(4.0 / 13 - 0.1));
}

TEST(TrafficSplit, AnotherExperimentSharesTheSameKeysOutAnew) {
  const TrafficSplit one("one", {{"a", 1}, {"b", 1}}), two("two", {{"a", 1}, {"b", 1}});
  int same = 0;
  for (int i = 0; i < kKeys; ++i) same += one.Choose(Key(i)) == two.Choose(Key(i));
  EXPECT_NEAR(same, kKeys / 2, Slack(0.5));
}

// The numbers that replicas of other builds, on other machines, come to.
TEST(TrafficSplit, IsTheSameEverywhere) {
  const TrafficSplit split("trial", {{"a", 1}, {"b", 1}, {"c", 1}});
  std::string arms;
  for (int i = 0; i < 24; ++i) arms += "abc"[split.Choose(Key(i))];
  EXPECT_EQ(arms, "cbbcacaacacaccccabbcbacc");
}

}  // namespace
}  // namespace fovea
