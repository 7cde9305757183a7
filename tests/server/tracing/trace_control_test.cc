#include "server/tracing/trace_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;

constexpr TraceId kTrace{1, 1};

// Of so many requests, those that are taken.
int Taken(TraceControl& control, const std::string& model, int requests) {
  int taken = 0;
  for (int i = 0; i < requests; ++i) taken += control.Take(model, kTrace);
  return taken;
}

TEST(TraceControlTest, TellsAllSixSettings) {
  const TraceControl control(/*can_trace=*/true, 0.01);
  const auto settings = control.Current("");
  EXPECT_EQ(settings.size(), 6u);
  EXPECT_THAT(settings.at("trace_level"), ElementsAre("TIMESTAMPS"));
  EXPECT_THAT(settings.at("trace_rate"), ElementsAre("100"));
  EXPECT_THAT(settings.at("trace_count"), ElementsAre("-1"));
  EXPECT_THAT(settings.at("trace_file"), ElementsAre(""));
  EXPECT_THAT(settings.at("log_frequency"), ElementsAre("0"));
  EXPECT_THAT(settings.at("trace_mode"), ElementsAre("opentelemetry"));
}

TEST(TraceControlTest, WithoutACollectorItIsOffAndStaysSo) {
  TraceControl control(/*can_trace=*/false, 1);
  EXPECT_THAT(control.Current("").at("trace_level"), ElementsAre("OFF"));
  EXPECT_TRUE(absl::IsUnimplemented(control.Change("", {{"trace_level", {"TIMESTAMPS"}}})));
  EXPECT_TRUE(control.Change("", {{"trace_level", {"OFF"}}}).ok());
  EXPECT_FALSE(control.On(""));
}

TEST(TraceControlTest, TheShareGoesByTheTrace) {
  TraceControl control(true, 0.5);
  EXPECT_TRUE(control.Take("", {1, uint64_t{1} << 62}));
  EXPECT_FALSE(control.Take("", {1, uint64_t{3} << 62}));
  TraceControl none(true, 0), all(true, 1);
  EXPECT_FALSE(none.Take("", {1, 0}));
  EXPECT_TRUE(all.Take("", {1, ~uint64_t{0}}));
}

TEST(TraceControlTest, TheRateTakesOneInSoManyInPlaceOfTheShare) {
  TraceControl control(true, 0);
  ASSERT_TRUE(control.Change("", {{"trace_rate", {"3"}}}).ok());
  EXPECT_EQ(Taken(control, "m", 9), 3);
  ASSERT_TRUE(control.Change("", {{"trace_rate", {"0"}}}).ok());
  EXPECT_EQ(Taken(control, "m", 9), 0);
  ASSERT_TRUE(control.Change("", {{"trace_rate", {}}}).ok());
  EXPECT_EQ(Taken(control, "m", 9), 0) << "the share of the start again";
}

TEST(TraceControlTest, TheCountRunsOutAndIsToldSo) {
  TraceControl control(true, 1);
  ASSERT_TRUE(control.Change("", {{"trace_count", {"2"}}}).ok());
  EXPECT_EQ(Taken(control, "m", 5), 2);
  EXPECT_THAT(control.Current("").at("trace_count"), ElementsAre("0"));
  ASSERT_TRUE(control.Change("", {{"trace_count", {}}}).ok());
  EXPECT_EQ(Taken(control, "m", 5), 5);
}

TEST(TraceControlTest, AModelsSettingGoesBeforeTheServersOneByOne) {
  TraceControl control(true, 1);
  ASSERT_TRUE(control.Change("", {{"trace_rate", {"2"}}, {"trace_count", {"100"}}}).ok());
  ASSERT_TRUE(control.Change("m", {{"trace_rate", {"5"}}}).ok());
  EXPECT_THAT(control.Current("m").at("trace_rate"), ElementsAre("5"));
  EXPECT_THAT(control.Current("m").at("trace_count"), ElementsAre("100"));
  EXPECT_EQ(Taken(control, "m", 10), 2);
  EXPECT_EQ(Taken(control, "other", 10), 5);
  EXPECT_THAT(control.Current("").at("trace_count"), ElementsAre("93"));
  ASSERT_TRUE(control.Change("m", {{"trace_level", {"OFF"}}}).ok());
  EXPECT_FALSE(control.On("m"));
  EXPECT_TRUE(control.On("other"));
  ASSERT_TRUE(control.Change("m", {{"trace_level", {}}, {"trace_rate", {}}}).ok());
  EXPECT_THAT(control.Current("m"), control.Current(""));
}

TEST(TraceControlTest, WhatIsRefusedChangesNothing) {
  TraceControl control(true, 1);
  const auto before = control.Current("");
  const TraceControl::Values senseless[] = {
      {{"trace_rate", {"-1"}}},    {{"trace_rate", {"4294967296"}}},
      {{"trace_rate", {"ten"}}},   {{"trace_rate", {"1", "2"}}},
      {{"trace_count", {"-2"}}},   {{"trace_count", {"1.5"}}},
      {{"trace_level", {"ALL"}}},  {{"trace_level", {"OFF", "TIMESTAMPS"}}},
      {{"trace_colour", {"red"}}}, {{"trace_rate", {"7"}}, {"trace_x", {}}}};
  for (const auto& change : senseless) {
    EXPECT_TRUE(absl::IsInvalidArgument(control.Change("", change)));
  }
  const TraceControl::Values not_done[] = {{{"trace_file", {"/tmp/trace.json"}}},
                                           {{"log_frequency", {"50"}}},
                                           {{"trace_mode", {"triton"}}},
                                           {{"trace_level", {"TIMESTAMPS", "TENSORS"}}}};
  for (const auto& change : not_done) {
    EXPECT_TRUE(absl::IsUnimplemented(control.Change("", change)));
  }
  EXPECT_EQ(control.Current(""), before);
  // What it is already, and a reset of what never changes, are no change.
  EXPECT_TRUE(control
                  .Change("", {{"trace_file", {""}},
                               {"log_frequency", {"0"}},
                               {"trace_mode", {"opentelemetry"}}})
                  .ok());
  EXPECT_TRUE(
      control.Change("", {{"trace_file", {}}, {"log_frequency", {}}, {"trace_mode", {}}}).ok());
}

TEST(TraceControlTest, ModelsWithSettingsOfTheirOwnAreBounded) {
  TraceControl control(true, 1);
  for (size_t i = 0; i < limits::kMaxTracedModels; ++i) {
    ASSERT_TRUE(control.Change("m" + std::to_string(i), {{"trace_rate", {"2"}}}).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(control.Change("one more", {{"trace_rate", {"2"}}})));
  ASSERT_TRUE(control.Change("m0", {{"trace_rate", {}}}).ok());
  EXPECT_TRUE(control.Change("one more", {{"trace_rate", {"2"}}}).ok());
}

}  // namespace
}  // namespace fovea
