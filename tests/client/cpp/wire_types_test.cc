#include "client/cpp/wire_types.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>

namespace fovea::client {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

// An object that fills its picture of 40 x 30 pixels.
fovea::v1::DetectResponse Found() {
  fovea::v1::DetectResponse response;
  fovea::v1::Detections& picture = *response.add_results();
  picture.set_image_width(40);
  picture.set_image_height(30);
  fovea::v1::Detection& object = *picture.add_detections();
  object.mutable_box()->set_right(40);
  object.mutable_box()->set_bottom(30);
  object.set_score(0.5F);
  object.set_class_index(7);
  return response;
}

struct Change {
  const char* what;
  std::function<void(fovea::v1::Detections&, fovea::v1::Detection&)> make;
};

absl::StatusOr<DetectResponse> Read(const Change& change) {
  fovea::v1::DetectResponse response = Found();
  fovea::v1::Detections& picture = *response.mutable_results(0);
  change.make(picture, *picture.mutable_detections(0));
  return FromWire(std::move(response));
}

TEST(WireTypes, DetectionsAreReadAsTheyAre) {
  const auto response = FromWire(Found());
  ASSERT_TRUE(response.ok()) << response.status();
  const Detection& found = response->images.at(0).detections.at(0);
  EXPECT_EQ(found.class_index, 7);
  EXPECT_EQ(found.box.right, 40);
  EXPECT_EQ(response->images[0].image_height, 30);
}

void ExpectSteps(const Receipt& receipt) {
  ASSERT_TRUE(receipt.device_times.has_value());
  EXPECT_EQ(receipt.device_times->h2d, absl::Nanoseconds(11));
  EXPECT_EQ(receipt.device_times->kernels, absl::Nanoseconds(12));
  EXPECT_EQ(receipt.device_times->d2h, absl::Nanoseconds(13));
}

TEST(WireTypes, WhatAGpuDidIsReadStepByStep) {
  fovea::v1::ClassifyResponse classified;
  EXPECT_FALSE(FromWire(fovea::v1::ClassifyResponse()).receipt.device_times.has_value());
  classified.mutable_receipt()->set_h2d_ns(11);
  classified.mutable_receipt()->set_kernels_ns(12);
  classified.mutable_receipt()->set_d2h_ns(13);
  ExpectSteps(FromWire(std::move(classified)).receipt);

  inference::ModelInferResponse inferred;
  auto& parameters = *inferred.mutable_parameters();
  for (const std::string_view stage : kStageNames) {
    parameters["fovea." + std::string(stage) + "_ns"].set_int64_param(1);
  }
  parameters["fovea.h2d_ns"].set_int64_param(11);
  parameters["fovea.kernels_ns"].set_int64_param(12);
  parameters["fovea.d2h_ns"].set_int64_param(13);
  const auto read = FromWire(std::move(inferred));
  ASSERT_TRUE(read.ok() && read->receipt.has_value()) << read.status();
  ExpectSteps(*read->receipt);
}

TEST(WireTypes, DetectionsThatMayBeAreTaken) {
  const Change changes[] = {
      {"beside the picture, by rounding",
       [](auto&, auto& object) {
         object.mutable_box()->set_left(-0.01F);
         object.mutable_box()->set_top(-0.01F);
         object.mutable_box()->set_right(40.01F);
         object.mutable_box()->set_bottom(30.01F);
       }},
      {"the surest score, by rounding", [](auto&, auto& object) { object.set_score(1.0001F); }},
      {"a box without area", [](auto&, auto& object) { object.mutable_box()->set_right(0); }},
      {"the largest class", [](auto&, auto& object) { object.set_class_index(999'999); }},
      {"nothing in a large picture",
       [](auto& picture, auto&) {
         picture.clear_detections();
         picture.set_image_width(32'767);
         picture.set_image_height(1'500);
       }},
  };
  for (const Change& change : changes) {
    const auto response = Read(change);
    EXPECT_TRUE(response.ok()) << change.what << ": " << response.status();
  }
}

TEST(WireTypes, DetectionsThatCannotBeAreRefused) {
  const Change changes[] = {
      {"a class below none", [](auto&, auto& object) { object.set_class_index(-1); }},
      {"a class beyond all", [](auto&, auto& object) { object.set_class_index(1'000'000); }},
      {"no score", [](auto&, auto& object) { object.set_score(kNan); }},
      {"a score below none", [](auto&, auto& object) { object.set_score(-3); }},
      {"a score above all", [](auto&, auto& object) { object.set_score(1.5F); }},
      {"no left", [](auto&, auto& object) { object.mutable_box()->set_left(kNan); }},
      {"no bottom", [](auto&, auto& object) { object.mutable_box()->set_bottom(kNan); }},
      {"no end", [](auto&, auto& object) { object.mutable_box()->set_right(kInfinite); }},
      {"a top far away", [](auto&, auto& object) { object.mutable_box()->set_top(-1e30F); }},
      {"a right side far away",
       [](auto&, auto& object) { object.mutable_box()->set_right(1e30F); }},
      {"another picture's", [](auto&, auto& object) { object.mutable_box()->set_bottom(40); }},
      {"the left behind the right",
       [](auto&, auto& object) {
         object.mutable_box()->set_left(30);
         object.mutable_box()->set_right(10);
       }},
      {"the top below the bottom",
       [](auto&, auto& object) {
         object.mutable_box()->set_top(20);
         object.mutable_box()->set_bottom(10);
       }},
      {"no height", [](auto& picture, auto&) { picture.set_image_height(0); }},
      {"a negative width", [](auto& picture, auto&) { picture.set_image_width(-40); }},
      {"a long side", [](auto& picture, auto&) { picture.set_image_width(32'768); }},
      {"many pixels",
       [](auto& picture, auto&) {
         picture.set_image_width(32'767);
         picture.set_image_height(3'200);
       }},
  };
  for (const Change& change : changes) {
    EXPECT_EQ(Read(change).status().code(), absl::StatusCode::kInternal) << change.what;
  }
}

}  // namespace
}  // namespace fovea::client
