#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"

namespace fovea {
namespace {

TEST(StatusTest, CarriesAReasonThatAProgramCanTest) {
  const absl::Status status = Unavailable("queue.full", "the queue is full");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the queue is full");
  EXPECT_EQ(ReasonOf(status), "queue.full");
}

TEST(StatusTest, KeepsTheReasonWhenItIsCopied) {
  const absl::StatusOr<int> result = Internal("executor.failed", "");
  EXPECT_EQ(ReasonOf(result.status()), "executor.failed");
}

TEST(StatusTest, HasNoReasonWhereNoneWasGiven) {
  EXPECT_EQ(ReasonOf(absl::OkStatus()), "");
  EXPECT_EQ(ReasonOf(absl::InternalError("somebody else's")), "");
}

TEST(StatusTest, EachConstructorHasItsCode) {
  EXPECT_EQ(InvalidArgument("a", "").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ResourceExhausted("a", "").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DeadlineExceeded("a", "").code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Cancelled("a", "").code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(NotFound("a", "").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FailedPrecondition("a", "").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Unimplemented("a", "").code(), absl::StatusCode::kUnimplemented);
}

absl::StatusOr<std::unique_ptr<int>> Half(int number) {
  if (number % 2 != 0) return InvalidArgument("half.odd", "odd");
  return std::make_unique<int>(number / 2);
}

absl::StatusOr<int> Quarter(int number) {
  FOVEA_ASSIGN_OR_RETURN(std::unique_ptr<int> half, Half(number));
  FOVEA_ASSIGN_OR_RETURN(auto quarter, Half(*half));
  return *quarter;
}

absl::Status CheckQuarter(int number, int* reached) {
  ++*reached;
  FOVEA_RETURN_IF_ERROR(Quarter(number).status());
  ++*reached;
  return absl::OkStatus();
}

TEST(StatusTest, AssignOrReturnTakesTheValueOrTheError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(ReasonOf(Quarter(7).status()), "half.odd");
  EXPECT_EQ(ReasonOf(Quarter(6).status()), "half.odd");
}

TEST(StatusTest, ReturnIfErrorGoesOnWhereThereIsNone) {
  int reached = 0;
  EXPECT_TRUE(CheckQuarter(4, &reached).ok());
  EXPECT_EQ(reached, 2);
  EXPECT_EQ(ReasonOf(CheckQuarter(5, &reached)), "half.odd");
  EXPECT_EQ(reached, 3);
}

TEST(CheckTest, EndsTheProcessAndSaysWhere) {
  const int two = 2;
  FOVEA_CHECK(two == 2);
  EXPECT_DEATH(FOVEA_CHECK(two == 3), "status_test.cc.*check failed: two == 3");
}

}  // namespace
}  // namespace fovea
