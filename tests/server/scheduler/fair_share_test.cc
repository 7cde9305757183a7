#include "server/scheduler/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace fovea {
namespace {

constexpr Nanos kQuantum = 100;
using Members = std::vector<FairShare::Member>;

TEST(FairShareTest, SharesTheDeviceEquallyWhateverABatchCosts) {
  FairShare share(kQuantum);
  const std::map<FairShare::Member, Nanos> cost = {{1, 70}, {2, 1'000}, {3, 10'000}};
  for (const auto& [member, unused] : cost) share.Add(member);
  std::map<FairShare::Member, Nanos> used;
  for (Nanos total = 0; total < 3'000'000;) {
    const FairShare::Member next = share.Next(Members{1, 2, 3});
    share.Charge(next, cost.at(next));
    used[next] += cost.at(next);
    total += cost.at(next);
  }
  for (const auto& [member, time] : used) {
    EXPECT_NEAR(time, 1'000'000, 10'000 + 2 * kQuantum) << member;
  }
}

TEST(FairShareTest, DividesTheDeviceByTheMembersDivisors) {
  FairShare share(6 * kQuantum);
  const std::map<FairShare::Member, Nanos> cost = {{1, 70}, {2, 1'000}, {3, 10'000}};
  share.Add(1, 6);
  share.Add(2, 3);
  share.Add(3, 2);
  std::map<FairShare::Member, Nanos> used;
  for (Nanos total = 0; total < 3'000'000;) {
    const FairShare::Member next = share.Next(Members{1, 2, 3});
    share.Charge(next, cost.at(next));
    used[next] += cost.at(next);
    total += cost.at(next);
  }
  EXPECT_NEAR(used[1], 500'000, 10'000 + 12 * kQuantum);
  EXPECT_NEAR(used[2], 1'000'000, 10'000 + 12 * kQuantum);
  EXPECT_NEAR(used[3], 1'500'000, 10'000 + 12 * kQuantum);
}

TEST(FairShareTest, LeavesNothingUnusedWhereOneOfLittleWeightIsAlone) {
  FairShare share(kQuantum);
  share.Add(1, 1'000'000'000);
  share.Add(2);
  for (int turn = 0; turn < 100; ++turn) {
    EXPECT_EQ(share.Next(Members{1}), 1u);
    share.Charge(1, 1'000'000);
  }
}

TEST(FairShareTest, GivesTheDeviceToWhoeverIsAlone) {
  FairShare share(kQuantum);
  share.Add(1);
  share.Add(2);
  for (int turn = 0; turn < 100; ++turn) {
    EXPECT_EQ(share.Next(Members{2}), 2u);
    share.Charge(2, 1'000'000);
  }
}

TEST(FairShareTest, DoesNotLetTurnsBeSavedUp) {
  FairShare share(kQuantum);
  share.Add(1);
  share.Add(2);
  for (int turn = 0; turn < 1'000; ++turn) {
    (void)share.Next(Members{1});
    share.Charge(1, 500);
  }
  // The second was away for long: it is next, but only for about as much as the first has just
  // used.
  Nanos before_first = 0;
  while (share.Next(Members{1, 2}) == 2) {
    share.Charge(2, 50);
    before_first += 50;
  }
  EXPECT_GT(before_first, 0);
  EXPECT_LE(before_first, 500 + 2 * kQuantum);
}

TEST(FairShareTest, KeepsTheDebtOfAMemberThatIsBrieflyOutOfWork) {
  FairShare share(kQuantum);
  share.Add(1);
  share.Add(2);
  share.Charge(1, 10'000);  // one large batch, and then its line is empty for a moment
  EXPECT_EQ(share.Next(Members{2}), 2u);
  share.Charge(2, 1'000);
  Nanos second = 1'000;
  while (share.Next(Members{1, 2}) == 2) {
    share.Charge(2, 1'000);
    second += 1'000;
  }
  EXPECT_NEAR(second, 10'000, 1'000 + 2 * kQuantum);
}

TEST(FairShareTest, LetsADebtRunOutWhileOthersWorkAndMakesNoCreditOfIt) {
  FairShare share(kQuantum);
  share.Add(1);
  share.Add(2);
  share.Charge(1, 10'000);
  for (int turn = 0; turn < 100; ++turn) {
    (void)share.Next(Members{2});
    share.Charge(2, 1'000'000);
  }
  Nanos before_second = 0;
  while (share.Next(Members{1, 2}) == 1) {
    share.Charge(1, 1'000);
    before_second += 1'000;
  }
  // Nothing is left of its debt: it makes good for one batch of the other, no more and no less.
  EXPECT_NEAR(before_second, 1'000'000, 1'000 + 2 * kQuantum);
}

TEST(FairShareTest, StaysWithItsChoiceUntilItIsCharged) {
  FairShare share(kQuantum);
  for (FairShare::Member member : {1, 2, 3}) share.Add(member);
  const FairShare::Member chosen = share.Next(Members{2, 3});
  EXPECT_EQ(share.Next(Members{2, 3}), chosen);
  EXPECT_EQ(share.Next(Members{1, 2, 3}), chosen);
}

TEST(FairShareTest, TakesBackWhatWasChargedTooMuch) {
  FairShare share(kQuantum);
  share.Add(1);
  share.Add(2);
  const FairShare::Member first = share.Next(Members{1, 2});
  share.Charge(first, 50'000);
  share.Charge(first, -50'000);
  EXPECT_EQ(share.Next(Members{1, 2}), first);
}

TEST(FairShareTest, SurvivesMembersThatComeAndGo) {
  std::mt19937_64 random(7);
  FairShare share(kQuantum);
  Members members;
  FairShare::Member last = 0;
  for (int step = 0; step < 20'000; ++step) {
    const int what = random() % 4;
    if (what == 0 && members.size() < 10) {
      members.push_back(++last);
      share.Add(last);
    } else if (what == 1 && !members.empty()) {
      const size_t index = random() % members.size();
      share.Remove(members[index]);
      share.Charge(members[index], 5);  // a run that ends after its model was unloaded
      members.erase(members.begin() + index);
    } else if (!members.empty()) {
      Members ready;
      for (FairShare::Member member : members) {
        if (random() % 2 == 0) ready.push_back(member);
      }
      if (ready.empty()) continue;
      const FairShare::Member next = share.Next(ready);
      ASSERT_EQ(std::count(ready.begin(), ready.end(), next), 1);
      share.Charge(next, random() % 1'000);
    }
  }
}

}  // namespace
}  // namespace fovea
