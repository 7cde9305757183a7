#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/class_colour.h"
#include "server/imaging/drawing/overlay.h"
#include "tests/client/cli/read_png.h"
#include "tests/client/cli/run_fovea.h"
#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string Photograph() {
  std::stringstream bytes;
  bytes << std::ifstream(FOVEA_SOURCE_DIR "/client/examples/star.jpg", std::ios::binary).rdbuf();
  return bytes.str();
}

class Detect : public FoveaTest {
 protected:
  Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address(), "detect"});
    return Fovea(arguments);
  }

  FakeServer server_{{.name = "finder", .task = "detection"}, {.name = "shapes"}};
};

TEST_F(Detect, PrintsTheObjectsOfAnImage) {
  const std::string path = Image("a.jpg");
  const Outcome outcome = Run({"--score-threshold", "0.1", path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, path + ": 2 objects\n" +
                             "  circle 75.0 % at (10, 20) to (110, 70)\n"
                             "  square 20.0 % at (10, 20) to (111, 70)\n");
}

TEST_F(Detect, LeavesOutWhatIsAskedFor) {
  const std::string path = Image("a.jpg");
  EXPECT_EQ(Run({path}).out, path + ": 1 object\n  circle 75.0 % at (10, 20) to (110, 70)\n");
  EXPECT_THAT(Run({"--score-threshold", "0", "--class", "star", path}).out,
              HasSubstr("star 5.0 %"));
  EXPECT_THAT(Run({"--score-threshold", "0", "--max-detections", "1", path}).out,
              HasSubstr(": 1 object\n"));
  EXPECT_EQ(Run({"--score-threshold", "0.9", path}).out, path + ": 0 objects\n");
  EXPECT_EQ(Run({"--score-threshold", "1.5", path}).exit_code, 2);
}

TEST_F(Detect, JsonIsCocosFormatOfResults) {
  const std::string number = Image("000000000139.jpg"), name = Image("b.jpg");
  const std::string bad = Image("c.jpg", "bad");
  const Outcome outcome = Run({"--json", "--score-threshold", "0.1", number, bad, name});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the image is no JPEG"));
  const Json json = Json::parse(outcome.out);
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[0]["image_id"], 139);
  EXPECT_EQ(json[0]["category_id"], 0);
  EXPECT_EQ(json[0]["bbox"], (Json{10.5, 20, 99.5, 50}));
  EXPECT_EQ(json[0]["score"], 0.75);
  EXPECT_EQ(json[0]["category_name"], "circle");
  EXPECT_EQ(json[3]["image_id"], name);
  EXPECT_EQ(Json::parse(Run({"--json", "--score-threshold", "1", name}).out), Json::array());
}

TEST_F(Detect, MasksOfModelsThatHaveThemAreShown) {
  FakeServer server{{.name = "finder", .task = "detection", .mask_runs = "0g[12"}};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server.address(), "detect"});
    return Fovea(arguments);
  };
  const std::string path = Image("a.jpg", Photograph());
  const Json json = Json::parse(run({"--json", path}).out);
  EXPECT_EQ(json[0]["segmentation"], (Json{{"size", {240, 320}}, {"counts", "0g[12"}}));
  EXPECT_EQ(Json::parse(Run({"--json", path}).out)[0].count("segmentation"), 0u);
  const Outcome drawn = run({path, "-o", folder_ / "found.png"});
  EXPECT_THAT(drawn.err, HasSubstr("a mask of the server's does not fit"));
}

TEST_F(Detect, WritesPictures) {
  const std::string path = Image("a.jpg", Photograph());
  const std::filesystem::path picture = folder_ / "found.png";
  EXPECT_EQ(Run({path, "--output", picture}).exit_code, 0);
  // The edge of the box that is said to be from (10.5, 20) to (110, 70) has its class's colour, and
  // what it holds none. The picture of 320 x 240 is drawn at twice its size.
  const RgbImage found = ReadPng(picture);
  ASSERT_EQ(found.width, 640);
  const auto has_colour = [&](int y, int from, int to) {
    for (int x = from; x < to; ++x) {
      const uint8_t* pixel = &found.pixels[3 * (y * found.width + x)];
      if (std::equal(pixel, pixel + 3, ClassColour(0).begin())) return true;
    }
    return false;
  };
  EXPECT_TRUE(has_colour(100, 16, 27));
  EXPECT_TRUE(has_colour(100, 215, 226));
  EXPECT_FALSE(has_colour(100, 40, 200));
  const std::filesystem::path drawn = folder_ / "drawn";
  std::filesystem::create_directory(folder_ / "more");
  const std::string other = Image("more/a.jpg", Photograph());
  EXPECT_EQ(Run({path, other, "-o", drawn}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(drawn / "a.png"));
  EXPECT_TRUE(std::filesystem::exists(drawn / "a_2.png"));
  const Outcome two = Run({path, other, "-o", picture});
  EXPECT_EQ(two.exit_code, 1) << two.err;
  EXPECT_THAT(two.err, HasSubstr("is another image's"));
}

TEST_F(Detect, PicturesAreWrittenAsPngOrIntoAFolder) {
  const std::string path = Image("a.jpg", Photograph());
  for (const char* output : {"found.jpg", "found.JPEG", "found.webp", "found.PNG"}) {
    const Outcome outcome = Run({path, "-o", folder_ / output});
    EXPECT_EQ(outcome.exit_code, 2) << output;
    EXPECT_THAT(outcome.err, HasSubstr("name a .png file or a folder"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / output));
  }
  std::filesystem::create_directory(folder_ / "drawn.jpg");
  EXPECT_EQ(Run({path, "-o", folder_ / "drawn.jpg"}).exit_code, 0);
}

TEST_F(Detect, PicturesAreNotReplacedByWhatIsDrawn) {
  const std::string path = Image("pics/a.png", Photograph());
  for (const std::string& output : {(folder_ / "pics").string(), path}) {
    const Outcome outcome = Run({path, "-o", output});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("not drawn")) << output;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(bytes, Photograph());
}

TEST_F(Detect, WhatCannotBeWrittenIsSaid) {
  const std::string path = Image("a.jpg", Photograph());
  std::ofstream(folder_ / "file") << "x";
  const Outcome outcome = Run({path, "-o", folder_ / "file" / "below"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("cannot be written"));
}

// Of such places it cannot even be told whether they are folders.
TEST_F(Detect, WhatCannotBeLookedAtIsSaid) {
  const std::string path = Image("a.jpg", Photograph());
  for (const char* name : {"loop", "loop.png"}) {
    std::filesystem::create_symlink(folder_ / name, folder_ / name);
  }
  const std::string long_name(300, 'x');
  for (const std::filesystem::path& output :
       {folder_ / "loop", folder_ / "loop.png", folder_ / "loop.png" / "below.png",
        folder_ / long_name, folder_ / (long_name + ".png")}) {
    const Outcome outcome = Run({path, "-o", output});
    EXPECT_EQ(outcome.exit_code, 1) << output;
    EXPECT_THAT(outcome.out, HasSubstr("circle")) << output;
    EXPECT_THAT(outcome.err, HasSubstr("cannot be written: ")) << output;
  }
}

TEST_F(Detect, AnAnswerThatCannotBeIsOnePicturesFailure) {
  const std::string lost = Image("a.jpg", "nowhere"), found = Image("b.jpg", Photograph());
  const Outcome outcome = Run({lost, found, "-o", folder_ / "drawn"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, found + ": 1 object\n  circle 75.0 % at (10, 20) to (110, 70)\n");
  EXPECT_THAT(outcome.err, HasSubstr(lost + ": the server found an object that cannot be"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "drawn" / "a.png"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "drawn" / "b.png"));
}

TEST_F(Detect, NeedsADetector) {
  FakeServer classifiers{{.name = "shapes"}};
  const Outcome outcome = Fovea({"--server", classifiers.address(), "detect", Image("a.jpg")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "fovea: the server has no detection model that is ready\n");
}

}  // namespace
}  // namespace fovea::client
