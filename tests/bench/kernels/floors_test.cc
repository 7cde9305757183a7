#include "tests/bench/kernels/floors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

namespace fovea::bench {
namespace {

using ::testing::ElementsAre;

Floors FloorsOf(const std::string& rows) {
  std::istringstream csv("# what this is\nid,command,what,size,against,sense,bound,moonshot\n" +
                         rows);
  return {csv, "bench-kernels"};
}

TEST(FloorsTest, AMeasurementAtTheBoundMeetsItsFloor) {
  const Floors floors = FloorsOf(
      "fast,bench-kernels,a kernel,197,times as fast as a peer,>=,2,4\n"
      "small,bench-kernels,a kernel,,times a peer's memory,<=,1.5,1\n");
  EXPECT_TRUE(floors.at("fast").MetBy(2));
  EXPECT_FALSE(floors.at("fast").MetBy(1.99));
  EXPECT_TRUE(floors.at("small").MetBy(1.5));
  EXPECT_FALSE(floors.at("small").MetBy(1.51));
}

TEST(FloorsTest, RowsWithoutAMeasurementAreListed) {
  const Floors floors = FloorsOf(
      "a,bench-kernels,,,,>=,2,4\nb,bench-kernels,,,,>=,2,4\nserved,bench,,,,>=,2,4\n"
      "c,bench-kernels,,,,>=,2,4\n");
  EXPECT_THAT(floors.Unmeasured({"b"}), ElementsAre("a", "c"));
  EXPECT_THAT(floors.Unmeasured({"a", "b", "c"}), ElementsAre());
}

TEST(FloorsTest, ARowOfAnotherCommandIsNone) {
  EXPECT_THROW(FloorsOf("served,bench,,,,>=,2,4\n").at("served"), std::runtime_error);
}

TEST(FloorsTest, AMalformedLineIsAnError) {
  EXPECT_THROW(FloorsOf("a,bench-kernels,,,,=,2,4\n"), std::runtime_error);
  EXPECT_THROW(FloorsOf("a,bench-kernels,,,,>=,2\n"), std::runtime_error);
  std::istringstream other("id,bound\n");
  EXPECT_THROW(Floors(other, "bench-kernels"), std::runtime_error);
}

}  // namespace
}  // namespace fovea::bench
