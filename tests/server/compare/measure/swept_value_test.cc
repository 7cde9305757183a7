#include "server/compare/measure/swept_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace fovea {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::vector<SweptValue>> Read(SweepAxis axis, std::vector<std::string> values) {
  return ReadSweptValues({.axis = axis, .values = std::move(values), .batch_size = 3}, 4);
}

std::string At(SweepAxis axis, const std::string& attention, const std::string& own,
               const std::string& value) {
  const auto text = AttentionAt(axis, attention, own, value);
  return text.ok() ? *text : absl::StrCat(ReasonOf(text.status()));
}

TEST(SweptValueTest, ChangesWhatItsAxisIs) {
  const auto sides = Read(SweepAxis::kResolution, {"64", "2048"});
  ASSERT_TRUE(sides.ok()) << sides.status();
  EXPECT_EQ((*sides)[1].size, (models::ImageSize{2048, 2048}));
  EXPECT_EQ((*sides)[0].place, 64.0 * 64) << "tokens grow with pixels";
  EXPECT_EQ((*sides)[0].batch_size, 3);
  EXPECT_EQ((*sides)[0].threads, 4);
  const auto batches = Read(SweepAxis::kBatch, {"1", "16"});
  EXPECT_EQ((*batches)[1].batch_size, 16);
  EXPECT_EQ((*batches)[1].place, 16);
  EXPECT_FALSE((*batches)[1].size.has_value());
  EXPECT_EQ((*Read(SweepAxis::kThreads, {"2"}))[0].threads, 2);
  const auto precisions = Read(SweepAxis::kPrecision, {"FP32", "BF16", "FP16", "INT8"});
  ASSERT_TRUE(precisions.ok()) << precisions.status();
  EXPECT_EQ((*precisions)[0].precision, models::Precision::kFp32);
  EXPECT_EQ((*precisions)[1].precision, models::Precision::kBf16);
  EXPECT_EQ((*precisions)[2].precision, models::Precision::kFp16);
  EXPECT_EQ((*precisions)[3].precision, models::Precision::kInt8);
  EXPECT_FALSE((*precisions)[1].place.has_value());
  EXPECT_EQ((*Read(SweepAxis::kK, {"0.5", "1.0"}))[1].place, 1);
  EXPECT_EQ((*Read(SweepAxis::kK, {"100"}))[0].place, 100);
  EXPECT_EQ((*Read(SweepAxis::kTemperature, {"0.25"}))[0].place, 0.25);
  EXPECT_EQ((*Read(SweepAxis::kHeads, {"12"}))[0].place, 12);
}

// Row 87.
TEST(SweptValueTest, WhatDoesNotLieOnTheAxisIsRefused) {
  const std::vector<std::pair<SweepAxis, std::string>> wrong = {
      {SweepAxis::kResolution, "0"},    {SweepAxis::kResolution, "2049"},
      {SweepAxis::kResolution, "64.5"}, {SweepAxis::kResolution, ""},
      {SweepAxis::kBatch, "65"},        {SweepAxis::kBatch, "-1"},
      {SweepAxis::kThreads, "5"},       {SweepAxis::kK, "0"},
      {SweepAxis::kK, "1.5"},           {SweepAxis::kK, "0.0"},
      {SweepAxis::kK, "9,exact"},       {SweepAxis::kTemperature, "0"},
      {SweepAxis::kTemperature, "nan"}, {SweepAxis::kTemperature, "inf"},
      {SweepAxis::kHeads, "x"},         {SweepAxis::kHeads, "+3"},
      {SweepAxis::kPrecision, "fp32"},  {SweepAxis::kPrecision, "INT4"}};
  for (const auto& [axis, value] : wrong) {
    EXPECT_EQ(ReasonOf(Read(axis, {value}).status()), "sweep.bad_value") << value;
  }
  const auto mixed = Read(SweepAxis::kK, {"9", "0.5"});
  EXPECT_THAT(std::string(mixed.status().message()), HasSubstr("one axis"));
}

// Row 87.
TEST(SweptValueTest, WhatIsThereTwiceIsRefused) {
  using Twice = std::pair<SweepAxis, std::vector<std::string>>;
  for (const auto& [axis, values] :
       {Twice{SweepAxis::kBatch, {"1", "2", "1"}}, Twice{SweepAxis::kK, {"9", "09"}},
        Twice{SweepAxis::kTemperature, {"0.5", ".50"}},
        Twice{SweepAxis::kPrecision, {"BF16", "FP32", "BF16"}}}) {
    const absl::Status twice = Read(axis, values).status();
    EXPECT_EQ(ReasonOf(twice), "sweep.bad_value") << values.back();
    EXPECT_THAT(std::string(twice.message()), HasSubstr("twice"));
  }
}

TEST(SweptValueTest, AnOptionFindsItsPlaceInTheAttention) {
  EXPECT_EQ(At(SweepAxis::kK, "knn", "dense", "9"), "knn:k=9");
  EXPECT_EQ(At(SweepAxis::kK, "", "dense", "0.5"), "knn:k=0.5");
  EXPECT_EQ(At(SweepAxis::kK, "shifted_window/knn:window=7", "", "9"),
            "shifted_window/knn:window=7,k=9");
  EXPECT_EQ(At(SweepAxis::kTemperature, "", "self/dense", "2"), "self/dense:temperature=2");
  EXPECT_EQ(At(SweepAxis::kHeads, "ska", "dense", "3"), "ska:heads=3");
  EXPECT_EQ(At(SweepAxis::kK, "conv|knn:k={}|knn:k={}", "", "0.5"), "conv|knn:k=0.5|knn:k=0.5");
  // What is no option leaves it alone.
  EXPECT_EQ(At(SweepAxis::kResolution, "knn:k=9", "dense", "64"), "knn:k=9");
  EXPECT_EQ(At(SweepAxis::kBatch, "", "dense", "64"), "");
}

// Row 87.
TEST(SweptValueTest, AnAttentionWithoutAPlaceIsRefused) {
  EXPECT_EQ(At(SweepAxis::kK, "knn:k=5", "", "9"), "sweep.bad_attention");
  EXPECT_EQ(At(SweepAxis::kK, "knn:exact,k=5", "", "9"), "sweep.bad_attention");
  EXPECT_EQ(At(SweepAxis::kK, "conv|knn", "", "9"), "sweep.bad_attention");
  EXPECT_EQ(At(SweepAxis::kTemperature, "", "", "2"), "sweep.bad_attention");
}

TEST(SweptValueTest, CostsHaveAnExponentOverNumbersThatTheyMayGrowWith) {
  EXPECT_TRUE(HasExponent(SweepAxis::kResolution));
  EXPECT_TRUE(HasExponent(SweepAxis::kK));
  EXPECT_FALSE(HasExponent(SweepAxis::kTemperature));
  EXPECT_FALSE(HasExponent(SweepAxis::kPrecision));
}

}  // namespace
}  // namespace fovea
