#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "base/class_colour.h"
#include "client/cpp/client.h"
#include "client/cpp/grey_png.h"
#include "server/imaging/drawing/overlay.h"
#include "server/imaging/encode_png.h"
#include "tests/client/cli/read_png.h"
#include "tests/client/cli/run_fovea.h"
#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

// Of one pixel.
std::string TinyPng() {
  RgbImage image = RgbImage::Allocate(1, 1);
  image.pixels[0] = image.pixels[1] = image.pixels[2] = 7;
  return *EncodePng(image);
}

class Segment : public FoveaTest {
 protected:
  Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address(), "segment"});
    return Fovea(arguments);
  }

  FakeServer server_{{.name = "shapes"}, {.name = "mapper", .task = "segmentation"}};
};

TEST_F(Segment, PrintsTheSharesOfAnImagesClasses) {
  const std::string path = Image("a.jpg");
  const Outcome outcome = Run({path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, path + ": square 66.7 %, circle 33.3 %\n");
}

TEST_F(Segment, JsonIsCocosFormatOfResultsForStuff) {
  const Outcome outcome = Run({"--json", Image("000000000139.jpg"), Image("b.jpg")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[0]["image_id"], 139);
  EXPECT_EQ(json[0]["category_id"], 1);
  EXPECT_EQ(json[0]["area"], 4);
  EXPECT_EQ(json[0]["segmentation"]["size"], (Json{2, 3}));
  EXPECT_EQ(json[0]["segmentation"]["counts"], "24");
  EXPECT_EQ(json[1]["category_name"], "circle");
}

TEST_F(Segment, AMapThatIsNotThePicturesIsNotDrawn) {
  const std::string path = Image("a.png", TinyPng());
  const Outcome outcome = Run({path, "--output", folder_ / "drawn.png"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("is of another size"));
}

TEST_F(Segment, DrawsTheClassesOnThePicture) {
  FakeServer server{
      {.name = "mapper", .task = "segmentation", .picture_height = 600, .picture_width = 600}};
  RgbImage grey = RgbImage::Allocate(600, 600);
  std::ranges::fill(std::span(grey.pixels.get(), grey.size()), 128);
  const std::string path = Image("a.png", *EncodePng(grey));
  const std::filesystem::path picture = folder_ / "drawn.png";
  const Outcome outcome =
      Fovea({"--server", server.address(), "segment", path, "--output", picture});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const RgbImage drawn = ReadPng(picture);
  ASSERT_EQ(drawn.width, 600);
  EXPECT_GT(drawn.height, 600) << "the legend";
  // Far from the first column and from the border beside it all is of class 1.
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(drawn.pixels[3 * (300 * 600 + 300) + c], 0.75 * ClassColour(1)[c] + 0.25 * 128, 1);
  }
}

TEST_F(Segment, GivesTheClassOfEachPixel) {
  const auto client = Client::Connect(server_.address());
  ASSERT_TRUE(client.ok());
  const auto answer = (*client)->Segment({.model = {"mapper"}, .images = {"an image"}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->images.at(0).class_map, ElementsAre(0, 1, 1, 0, 1, 1));
  for (const char* image : {"holes", "nowhere"}) {
    const auto broken = (*client)->Segment({.model = {"mapper"}, .images = {image}});
    EXPECT_EQ(broken.status().code(), absl::StatusCode::kInternal) << image;
  }
}

TEST_F(Segment, TellsHowSureTheModelIsOfEachPixelWhereItIsAsked) {
  const auto client = Client::Connect(server_.address());
  ASSERT_TRUE(client.ok());
  const auto answer =
      (*client)->Segment({.model = {"mapper"}, .images = {"an image"}, .confidence = true});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->images.at(0).confidence, ElementsAre(0, 40, 80, 120, 160, 200));
  EXPECT_THAT(answer->images.at(0).class_map, ElementsAre(0, 1, 1, 0, 1, 1));
  const auto plain = (*client)->Segment({.model = {"mapper"}, .images = {"an image"}});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(plain->images.at(0).confidence, IsEmpty());
  const auto broken =
      (*client)->Segment({.model = {"mapper"}, .images = {"cropped"}, .confidence = true});
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kInternal);
  const auto missing =
      (*client)->Segment({.model = {"mapper"}, .images = {"unsure"}, .confidence = true});
  EXPECT_EQ(missing.status(), absl::InternalError("the server gave no confidence"));
}

TEST(ReadGreyPng, RefusesWhatIsNoLevelForEachPixel) {
  const std::vector<uint8_t> levels = {0, 1, 127, 128, 254, 255};
  const std::string file = *EncodeGreyPng(levels, {2, 3});
  EXPECT_EQ(*ReadGreyPng(file, 2, 3), levels);
  EXPECT_FALSE(ReadGreyPng(file, 3, 2).ok());
  EXPECT_FALSE(ReadGreyPng(TinyPng(), 1, 1).ok()) << "in colour";
  EXPECT_FALSE(ReadGreyPng(*EncodeGreyPng(std::vector<uint16_t>{7}, {1, 1}), 1, 1).ok());
  EXPECT_FALSE(ReadGreyPng("no PNG", 2, 3).ok());
  EXPECT_FALSE(ReadGreyPng("", 2, 3).ok());
  // But for the end's own chunk of 12 bytes, which says nothing of the pixels.
  for (size_t length = 0; length <= file.size() - 13; ++length) {
    EXPECT_FALSE(ReadGreyPng(file.substr(0, length), 2, 3).ok()) << length;
  }
}

}  // namespace
}  // namespace fovea::client
