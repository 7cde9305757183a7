#include "client/cpp/cli/statistics.h"

#include <gtest/gtest.h>

namespace fovea::client {
namespace {

TEST(Quartiles, OfNothingAreZero) { EXPECT_EQ(QuartilesOf({}), (Quartiles{0, 0, 0})); }

TEST(Quartiles, OfOneMeasurementAreThatMeasurement) {
  EXPECT_EQ(QuartilesOf({3}), (Quartiles{3, 3, 3}));
}

// numpy.percentile([1, 2, 3, 4], [25, 50, 75]) = [1.75, 2.5, 3.25]
TEST(Quartiles, AreInterpolatedBetweenMeasurementsWhateverTheirOrder) {
  EXPECT_EQ(QuartilesOf({4, 1, 3, 2}), (Quartiles{1.75, 2.5, 3.25}));
}

TEST(Quartiles, DoNotMoveWithAnOutlier) {
  const Quartiles calm = QuartilesOf({10, 11, 12, 13, 14});
  const Quartiles disturbed = QuartilesOf({10, 11, 12, 13, 5000});
  EXPECT_EQ(calm, disturbed);
}

}  // namespace
}  // namespace fovea::client
