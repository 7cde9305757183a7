#include "client/cpp/cli/sweep_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "client/cpp/cli/sweep_plots.h"

namespace fovea::client {
namespace {

using ::testing::ContainsRegex;

TEST(SweepText, MultiplyAddsThatWereNotCountedAreNoZero) {
  const SweptPoint counted{.compute_ms = {4, 4, 4},
                           .attention_ms = Quartiles{1, 1, 1},
                           .images_per_second = 250,
                           .peak_bytes = 2 << 20,
                           .multiply_adds = 1'254'000'000};
  SweptPoint uncounted = counted;
  uncounted.multiply_adds = 0;
  Sweep sweep{.over = SweepAxis::kBatch, .values = {"1", "2"}, .places = {1, 2}, .rounds = 20};
  sweep.curves = {{.model = {"shapes", "1"}, .attention = "dense", .points = {counted, uncounted}}};
  std::ostringstream out;
  PrintSweep(sweep, out, /*colour=*/false);
  EXPECT_THAT(out.str(), ContainsRegex("\ndense +1 .* 2\\.00 +1\\.254\ndense +2 .* 2\\.00 +-\n"));
  EXPECT_THAT(SweepReport(sweep), ContainsRegex(">2\\.00</td><td>1\\.254</td>"));
  EXPECT_THAT(SweepReport(sweep), ContainsRegex(">2\\.00</td><td>-</td>"));
}

TEST(SweepText, WhereThereIsNoAttentionItsTimeIsNoZero) {
  const SweptPoint point{.compute_ms = {4, 4, 4}, .images_per_second = 250, .peak_bytes = 2 << 20};
  Sweep sweep{.over = SweepAxis::kBatch, .values = {"1"}, .places = {1}, .rounds = 20};
  sweep.curves = {{.model = {"frame", "1"}, .attention = "conv", .points = {point}}};
  std::ostringstream out;
  PrintSweep(sweep, out, /*colour=*/false);
  EXPECT_THAT(out.str(), ContainsRegex("\nconv +1 .* 250\\.0 +- +2\\.00 "));
  EXPECT_THAT(SweepReport(sweep), ContainsRegex(">250\\.0</td><td>-</td><td>2\\.00<"));
  EXPECT_THAT(SweepCsv(sweep), ContainsRegex(",4,4,4,,,,,,250,2097152,"));
}

}  // namespace
}  // namespace fovea::client
