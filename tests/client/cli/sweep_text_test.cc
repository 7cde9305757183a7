#include "client/cpp/cli/sweep_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "client/cpp/cli/sweep_json.h"
#include "client/cpp/cli/sweep_plots.h"

namespace fovea::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_THAT(SweepReport(sweep, "fovea sweep"), ContainsRegex(">2\\.00</td><td>1\\.254</td>"));
  EXPECT_THAT(SweepReport(sweep, "fovea sweep"), ContainsRegex(">2\\.00</td><td>-</td>"));
}

TEST(SweepText, WhereThereIsNoAttentionItsTimeIsNoZero) {
  const SweptPoint point{.compute_ms = {4, 4, 4}, .images_per_second = 250, .peak_bytes = 2 << 20};
  Sweep sweep{.over = SweepAxis::kBatch, .values = {"1"}, .places = {1}, .rounds = 20};
  sweep.curves = {{.model = {"frame", "1"}, .attention = "conv", .points = {point}}};
  std::ostringstream out;
  PrintSweep(sweep, out, /*colour=*/false);
  EXPECT_THAT(out.str(), ContainsRegex("\nconv +1 .* 250\\.0 +- +2\\.00 "));
  EXPECT_THAT(SweepReport(sweep, "fovea sweep"),
              ContainsRegex(">250\\.0</td><td>-</td><td>2\\.00<"));
  // On a phone, what is wider than the window scrolls on its own.
  for (const char* wide :
       {"<div class=\"wide\"><svg class=\"curves\"", "<div class=\"wide\"><table>"}) {
    EXPECT_THAT(SweepReport(sweep, "fovea sweep"), HasSubstr(wide));
  }
  EXPECT_THAT(SweepCsv(sweep, "fovea sweep"), Not(HasSubstr("attention_ms")));
  sweep.curves[0].points[0].attention_left_out = true;
  EXPECT_THAT(SweepNotes(sweep),
              testing::Contains("The attention time of conv at batch 1 is left out: it would "
                                "exceed compute, of which it is a part."));
  EXPECT_THAT(SweepJson(sweep, "fovea sweep"), HasSubstr("\"attention_left_out\": true"));
}

}  // namespace
}  // namespace fovea::client
