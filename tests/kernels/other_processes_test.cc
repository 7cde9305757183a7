#include "kernels/other_processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

namespace fovea::kernels {
namespace {

// user nice system idle iowait irq softirq steal guest guest_nice
constexpr char kStat[] =
    "cpu  100 0 100 700 100 0 0 0 0 0\n"
    "cpu0 50 1 50 300 50 2 3 4 9 9\n"
    "cpu1 50 0 50 400 50 0 0 0 0 0\n"
    "cpu10 7 0 7 900 0 0 0 0 0 0\n"
    "intr 1 2 3\n";

TEST(CoreTimes, AreThoseOfTheAllowedCores) {
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  struct {
    std::vector<int> allowed;
    double busy_ticks, idle_ticks;
  } const cases[] = {{{0}, 110, 350}, {{1}, 100, 450}, {{0, 1}, 210, 800}, {{10}, 14, 900}};
  for (const auto& [allowed, busy_ticks, idle_ticks] : cases) {
    const std::optional<CoreTimes> times = ReadCoreTimes(kStat, allowed);
    ASSERT_TRUE(times.has_value());
    EXPECT_EQ(times->cores, allowed.size());
    EXPECT_DOUBLE_EQ(times->busy, busy_ticks * tick);
    EXPECT_DOUBLE_EQ(times->idle, idle_ticks * tick);
  }
}

TEST(CoreTimes, AreAbsentWhereTheSystemDoesNotReportThem) {
  struct {
    std::string stat;
    std::vector<int> allowed;
  } const cases[] = {{"", {0}},
                     {kStat, {}},
                     {kStat, {0, 2}},
                     {"cpu \ncpu0 1 2 3 4 5 6 7\n", {0}},
                     {"\ncpu0 a b c d e f g h", {0}}};
  for (const auto& [stat, allowed] : cases) {
    EXPECT_FALSE(ReadCoreTimes(stat, allowed).has_value()) << stat;
  }
}

TEST(OtherCores, AreTheBusyOnesLessThisProcess) {
  const CoreTimes before{.cores = 2, .busy = 10, .idle = 20};
  struct {
    double busy, idle, own;
    std::optional<double> others;
  } const cases[] = {
      {0, 4, 0, 0.0},           // idle for two seconds
      {4, 0, 1, 1.5},           // three of the four seconds are others'
      {2, 2, 2, 0.0},           // all of it is this process's
      {1, 3, 1.02, 0.0},        // which is counted more finely
      {0, 0, 0, std::nullopt},  // a sandbox that counts nothing
      {0, 0, 2, std::nullopt},
  };
  for (const auto& [busy, idle, own, others] : cases) {
    const CoreTimes after{.cores = 2, .busy = 10 + busy, .idle = 20 + idle};
    EXPECT_EQ(OtherCores(before, after, own, /*wall=*/2), others) << busy << " " << idle;
  }
  EXPECT_EQ(OtherCores(before, before, 0, /*wall=*/0), std::nullopt);
}

}  // namespace
}  // namespace fovea::kernels
