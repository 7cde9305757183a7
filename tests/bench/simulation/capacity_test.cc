// What holds of every plan. Virtual time: the numbers are the same everywhere.
#include "tests/bench/simulation/capacity.h"

#include <gtest/gtest.h>

#include <vector>

namespace fovea::bench {
namespace {

constexpr SimulatedModel kModel{
    .per_batch = 4 * kMillisecond, .per_image = 2 * kMillisecond, .max_batch_size = 8};
// Full batches of 20 ms: 400 images a second a replica.
constexpr Demand kDemand{
    .requests_per_second = 1000, .p99 = 60 * kMillisecond, .duration = 20 * kSecond};

TEST(Capacity, TheLastFleetMeetsWhatIsAskedAndThoseBeforeDoNot) {
  const std::vector<Fleet> fleets = FindReplicas(kDemand, kModel, 100);
  ASSERT_FALSE(fleets.empty());
  EXPECT_EQ(fleets.front().replicas, 3);  // 1,000 / 400, rounded up
  for (const Fleet& fleet : fleets) {
    const bool meets = fleet.p99 <= kDemand.p99 && fleet.answered == 1;
    EXPECT_EQ(meets, &fleet == &fleets.back()) << fleet.replicas;
  }
}

TEST(Capacity, MoreReplicasMakeTheTailShorter) {
  Nanos before = kNever;
  for (const int replicas : {3, 4, 6, 12}) {
    const Fleet fleet = SimulateFleet(kDemand, kModel, replicas);
    EXPECT_NEAR(fleet.load, 2.5 / replicas, 1e-9);
    EXPECT_LT(fleet.p99, before) << replicas;
    before = fleet.p99;
  }
}

TEST(Capacity, NoTailIsShorterThanARun) {
  // Within the noise of a run time: a hundredth of the runs takes less than three deviations less.
  const Fleet fleet = SimulateFleet(kDemand, kModel, 100);
  EXPECT_GT(fleet.p99, kModel.RunTime(1));
  EXPECT_EQ(fleet.answered, 1);
}

TEST(Capacity, BurstsNeedMoreReplicas) {
  Demand bursty = kDemand;
  bursty.process = ArrivalProcess::kBursty;
  EXPECT_GT(FindReplicas(bursty, kModel, 100).size(), FindReplicas(kDemand, kModel, 100).size());
}

TEST(Capacity, AP99BelowARunIsMetByNoNumber) {
  Demand hopeless = kDemand;
  hopeless.p99 = kMillisecond;
  const std::vector<Fleet> fleets = FindReplicas(hopeless, kModel, 20);
  EXPECT_EQ(fleets.back().replicas, 20);
  EXPECT_FALSE(fleets.back().p99 <= hopeless.p99 && fleets.back().answered == 1);
}

}  // namespace
}  // namespace fovea::bench
