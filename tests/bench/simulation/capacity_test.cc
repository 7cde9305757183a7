// What holds of every plan. Virtual time: the numbers are the same everywhere.
#include "tests/bench/simulation/capacity.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/bench/simulation/batch_curve.h"

namespace fovea::bench {
namespace {

const SimulatedModel kModel{
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

TEST(Capacity, NoFleetIsTriedWhereAnImageAloneTakesLonger) {
  Demand hopeless = kDemand;
  hopeless.p99 = kModel.RunTime(1) - 1;
  EXPECT_TRUE(FindReplicas(hopeless, kModel, 10'000).empty());
}

TEST(Capacity, BurstsNeedMoreReplicas) {
  Demand bursty = kDemand;
  bursty.process = ArrivalProcess::kBursty;
  EXPECT_GT(FindReplicas(bursty, kModel, 100).size(), FindReplicas(kDemand, kModel, 100).size());
}

TEST(Capacity, ASweepsBatchesTakeAsLongAsMeasured) {
  const auto curves = ReadBatchCurves(
      "model_name,curve,over,value,failure,compute_ms_median\r\n"
      "shapes,dense,BATCH,1,,2\r\n"
      "shapes,dense,BATCH,5,,10\r\n"
      "shapes,\"conv|a,b\",BATCH,1,,3\r\n"
      "shapes,\"conv|a,b\",BATCH,2,\"too \"\"large\"\", it says\",\r\n");
  ASSERT_TRUE(curves.ok()) << curves.status();
  ASSERT_EQ(curves->size(), 2u);
  const BatchCurve& dense = (*curves)[0];
  EXPECT_EQ(dense.name, "shapes, dense");
  EXPECT_EQ(dense.model.max_batch_size, 5);
  EXPECT_EQ(dense.model.RunTime(1), 2 * kMillisecond);
  EXPECT_EQ(dense.model.RunTime(3), 6 * kMillisecond);
  EXPECT_EQ(dense.model.RunTime(5), 10 * kMillisecond);
  EXPECT_EQ((*curves)[1].name, "shapes, conv|a,b");
  EXPECT_EQ((*curves)[1].model.max_batch_size, 1);
  // 500 images a second a replica at most.
  EXPECT_EQ(FindReplicas(kDemand, dense.model, 100).front().replicas, 2);
}

TEST(Capacity, WhatIsNoSweepOverBatchesIsRefused) {
  const std::string head = "model_name,curve,over,value,compute_ms_median\n";
  for (const std::string& text :
       {std::string(), std::string("model_name,value\n"), head, head + "a,b,k,1,2\n",
        head + "a,b,BATCH,2,2\n", head + "a,b,BATCH,x,2\n", head + "a,b,BATCH,1,-2\n",
        head + "a,b,BATCH,1\n", head + "a,b,BATCH,1,\n"}) {
    EXPECT_FALSE(ReadBatchCurves(text).ok()) << text;
  }
}

TEST(Capacity, AP99OfAQuietRunIsMetByNoNumber) {
  Demand hopeless = kDemand;
  hopeless.p99 = kModel.RunTime(1);
  const std::vector<Fleet> fleets = FindReplicas(hopeless, kModel, 20);
  EXPECT_EQ(fleets.back().replicas, 20);
  EXPECT_FALSE(fleets.back().p99 <= hopeless.p99 && fleets.back().answered == 1);
}

}  // namespace
}  // namespace fovea::bench
