// What holds of every simulation, on a small one. Virtual time: the numbers are the same
// everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "tests/bench/simulation/schedulers.h"

namespace fovea::bench {
namespace {

const WorkloadOptions kSmall{.models = 20, .requests_per_second = 2'000, .duration = 2 * kSecond};

using Case = std::tuple<ArrivalProcess, double /*load*/>;

class SimulationTest : public testing::TestWithParam<Case> {
 protected:
  double load() const { return std::get<1>(GetParam()); }
  const Workload workload_ = MakeWorkload(kSmall, std::get<0>(GetParam()));
  const int threads_ = static_cast<int>(std::round(workload_.threads_wanted / load()));
};

TEST_P(SimulationTest, EveryRequestEndsInOneWay) {
  const Outcome ours = RunDispatcher(workload_, threads_, {});
  EXPECT_EQ(ours.arrived, static_cast<int64_t>(workload_.arrivals.size()));
  EXPECT_EQ(ours.ended(), ours.arrived);
  EXPECT_GT(ours.in_time, 0);
  if (load() > 1) {  // else answers come before callers go
    EXPECT_GT(ours.cancelled, 0);
  }
  for (const bool timeouts : {false, true}) {
    const Outcome fixed = RunFixedDelay(workload_, threads_, {.timeouts = timeouts});
    EXPECT_EQ(fixed.ended(), fixed.arrived);
  }
}

TEST_P(SimulationTest, AnExpiredRequestIsNeverRun) {
  EXPECT_EQ(RunDispatcher(workload_, threads_, {}).run_expired, 0);
  EXPECT_EQ(RunFixedDelay(workload_, threads_, {.timeouts = true}).run_expired, 0);
}

TEST_P(SimulationTest, TheDeviceIsNotUsedForMoreThanItHas) {
  const Outcome ours = RunDispatcher(workload_, threads_, {});
  const double seconds = static_cast<double>(kSmall.duration) * 1e-9;
  const Nanos longest = *std::max_element(ours.latencies.begin(), ours.latencies.end());
  EXPECT_LE(ours.busy, threads_ * (seconds + longest * 1e-9));
  EXPECT_GE(ours.MeanBatch(), 1);
  EXPECT_LE(ours.MeanBatch(), 8);
}

TEST_P(SimulationTest, AsMuchIsAnsweredInTimeAsWithAFixedDelay) {
  const Outcome ours = RunDispatcher(workload_, threads_, {});
  EXPECT_GE(ours.in_time, RunFixedDelay(workload_, threads_, {}).in_time);
  EXPECT_GE(ours.in_time, RunFixedDelay(workload_, threads_, {.timeouts = true}).in_time);
}

TEST_P(SimulationTest, IsTheSameEachTime) {
  const Workload again = MakeWorkload(kSmall, std::get<0>(GetParam()));
  ASSERT_EQ(again.arrivals.size(), workload_.arrivals.size());
  EXPECT_EQ(RunDispatcher(again, threads_, {}).latencies,
            RunDispatcher(workload_, threads_, {}).latencies);
}

INSTANTIATE_TEST_SUITE_P(All, SimulationTest,
                         testing::Combine(testing::Values(ArrivalProcess::kPoisson,
                                                          ArrivalProcess::kBursty,
                                                          ArrivalProcess::kDiurnal),
                                          testing::Values(0.7, 4.0)),
                         [](const auto& info) {
                           return ArrivalProcessName(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) > 1 ? "_overload" : "_within");
                         });

TEST(WorkloadTest, EveryProcessBringsTheMeanRate) {
  const WorkloadOptions options{
      .models = 5, .requests_per_second = 1'000, .duration = 400 * kSecond};
  for (const ArrivalProcess process :
       {ArrivalProcess::kPoisson, ArrivalProcess::kBursty, ArrivalProcess::kDiurnal}) {
    const Workload workload = MakeWorkload(options, process);
    EXPECT_NEAR(workload.arrivals.size() / 400e3, 1,
                process == ArrivalProcess::kBursty ? 0.2 : 0.01)
        << ArrivalProcessName(process);
    EXPECT_TRUE(std::is_sorted(workload.arrivals.begin(), workload.arrivals.end(),
                               [](const Arrival& a, const Arrival& b) { return a.at < b.at; }));
  }
}

}  // namespace
}  // namespace fovea::bench
