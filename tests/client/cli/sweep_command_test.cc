// fovea sweep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/cli/sweep_text.h"
#include "tests/client/cli/read_png.h"
#include "tests/client/cli/run_fovea.h"
#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using Json = nlohmann::json;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

int64_t PixelsOf(const RgbImage& picture, const std::array<uint8_t, 3>& colour) {
  int64_t pixels = 0;
  const auto bytes = picture.bytes();
  for (size_t at = 0; at < bytes.size(); at += colour.size()) {
    pixels += std::ranges::equal(bytes.subspan(at, colour.size()), colour);
  }
  return pixels;
}

class SweepCommand : public FoveaTest {
 protected:
  Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address(), "sweep"});
    return Fovea(arguments);
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream read;
    read << file.rdbuf();
    return read.str();
  }

  FakeServer server_{{.name = "dense", .compute_ns = 4'000'000, .peak_bytes = 6 << 20},
                     {.name = "other", .compute_ns = 3'000'000, .peak_bytes = 2 << 20}};
};

TEST_F(SweepCommand, AsksForACurveOfEachAttentionOverEachModel) {
  const Outcome outcome =
      Run({Image("a.jpg"), "--model",     "dense",     "--model",   "other/1", "--attention",
           "knn",          "--attention", "knn:exact", "--over",    "k",       "--values",
           "0.25,0.5",     "--values",    "1.0",       "--rounds",  "30",      "--max-time",
           "2s",           "--batch",     "4",         "--threads", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto asked = server_.swept();
  ASSERT_EQ(asked.size(), 1u);
  std::vector<std::string> variants;
  for (const auto& variant : asked[0].variants()) {
    variants.push_back(variant.model_name() + "/" + variant.model_version() + " " +
                       variant.attention());
  }
  EXPECT_THAT(variants,
              ElementsAre("dense/ knn", "dense/ knn:exact", "other/1 knn", "other/1 knn:exact"));
  EXPECT_EQ(asked[0].over(), fovea::v1::SweepRequest::K);
  EXPECT_THAT(asked[0].values(), ElementsAre("0.25", "0.5", "1.0"));
  EXPECT_FALSE(asked[0].image().empty());
  EXPECT_EQ(asked[0].rounds(), 30);
  EXPECT_EQ(asked[0].max_time_us(), 2'000'000u);
  EXPECT_EQ(asked[0].batch_size(), 4);
  EXPECT_EQ(asked[0].threads(), 1);
}

TEST_F(SweepCommand, PrintsPointsExponentsAndWhatIsMissing) {
  const Outcome outcome = Run({"--model", "dense", "--attention", "dense", "--attention", "knn:k=9",
                               "--over", "resolution", "--values", "64,128,13,256"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(server_.swept()[0].image().empty());
  const std::string& out = outcome.out;
  EXPECT_THAT(out, HasSubstr("dense/1 over resolution, 2 threads of CPU, batches of 1, 20 rounds"));
  EXPECT_THAT(out, ContainsRegex("CURVE +RESOLUTION +MEDIAN ms"));
  EXPECT_THAT(out,
              ContainsRegex("\ndense +128 +8\\.00 +6\\.00-12\\.00 +125\\.0 +2\\.00 +12\\.00 "));
  EXPECT_THAT(out, ContainsRegex("\nknn:k=9 +13 +- +- "));
  EXPECT_THAT(out, ContainsRegex("EXPONENT OF PIXELS +COMPUTE"));
  EXPECT_THAT(out, ContainsRegex("\ndense +1\\.00 \\(0\\.98 to 1\\.03\\) +6\\.2 % .* 1\\.00 +3\n"));
  EXPECT_THAT(out, HasSubstr("Not measured: dense at resolution 13: it cannot be built.\n"));
  EXPECT_THAT(out, HasSubstr("knn:k=9: same weights as dense, not fine-tuned.\n"));
}

TEST(ExponentText, HasAnIntervalWhereThereIsOne) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ExponentText(FittedExponent{.exponent = {1, 0.5, 1.5}}), "1.00 (0.50 to 1.50)");
  EXPECT_EQ(ExponentText(FittedExponent{.exponent = {1, 1, 1}}), "1.00");
  EXPECT_EQ(ExponentText(FittedExponent{.exponent = {1, -kInfinity, kInfinity}}), "1.00");
  EXPECT_EQ(ExponentText(std::nullopt), "-");
}

TEST_F(SweepCommand, SaysThatThereIsNoExponent) {
  const std::string precisions =
      Run({"--model", "dense", "--over", "precision", "--values", "FP32,BF16"}).out;
  EXPECT_THAT(precisions, HasSubstr("Costs do not grow with the precision"));
  EXPECT_THAT(precisions, Not(HasSubstr("EXPONENT")));
  EXPECT_THAT(Run({"--model", "dense", "--over", "batch", "--values", "1,2"}).out,
              HasSubstr("An exponent needs three points of a curve.\n"));
}

TEST_F(SweepCommand, SaysTheSameInJson) {
  const Outcome outcome = Run({"--model", "dense", "--model", "other", "--over", "batch",
                               "--values", "1,2,13,4", "--json"});
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["over"], "BATCH");
  EXPECT_EQ(json["values"][1], "2");
  EXPECT_EQ(json["places"][1], 2);
  EXPECT_EQ(json["rounds"], 20);
  const Json& curve = json["curves"][1];
  EXPECT_EQ(curve["model_name"], "other");
  EXPECT_EQ(curve["model_version"], "1");
  EXPECT_EQ(curve["points"][1]["compute_ms"]["median"], 6);
  EXPECT_EQ(curve["points"][1]["compute_ms"]["lower"], 4.5);
  EXPECT_FALSE(curve["points"][1].contains("compute_estimate_ms"));
  EXPECT_EQ(curve["points"][2], Json({{"failure", "it cannot be built"}}));
  EXPECT_EQ(curve["compute_exponent"]["exponent"]["value"], 1);
  EXPECT_EQ(curve["compute_exponent"]["points"], 3);
}

TEST_F(SweepCommand, WritesARowForEachPoint) {
  const std::string csv =
      Run({"--model", "dense", "--over", "batch", "--values", "1,13,4", "--csv"}).out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_THAT(csv, HasSubstr("curve,model_name,model_version,backbone,untrained,"));
  EXPECT_THAT(csv, HasSubstr(",value,place,attention,compute_ms_q1,compute_ms_median,"));
  EXPECT_THAT(csv, HasSubstr("\r\ndense,dense,1,vit_demo_patch8_64,false,"));
  EXPECT_THAT(csv, ContainsRegex(",13,2\\.0,[^a-z\r]*,BATCH,20,2,[^\r]*,it cannot be built\r\n"));
  EXPECT_THAT(csv, Not(HasSubstr("batch_size")));  // the value is
}

TEST_F(SweepCommand, WritesAPageThatNeedsNoOtherFileAndAPicture) {
  const std::string page_path = folder_ / "sweep.html", png_path = folder_ / "sweep.png";
  const Outcome outcome =
      Run({"--model", "dense", "--attention", "dense", "--attention", "knn:k=9", "--over",
           "resolution", "--values", "64,128,256", "--report", page_path, "--png", png_path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string page = Read(page_path);
  EXPECT_THAT(page, HasSubstr("How costs grow with resolution"));
  EXPECT_THAT(page, HasSubstr("knn:k=9: pixels ^ 1.00 (0.98 to 1.03)"));
  EXPECT_THAT(page, Not(HasSubstr("not measured")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  for (const char* elsewhere : {"http", "src=", "href=", "url(", "@import", "<script"}) {
    EXPECT_THAT(page, Not(HasSubstr(elsewhere)));
  }
  // Four plots, each with a dot for each point and each curve's name.
  size_t dots = 0;
  for (size_t at = page.find("<circle"); at != page.npos; at = page.find("<circle", at + 1)) ++dots;
  EXPECT_EQ(dots, 4u * 2 * (3 + 1));
  const RgbImage picture = ReadPng(png_path);
  EXPECT_EQ(picture.width, 2560);
  EXPECT_GT(picture.height, 1000);
  const Outcome nowhere = Run({"--model", "dense", "--over", "batch", "--values", "1", "--png",
                               folder_ / "missing" / "sweep.png"});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("sweep.png cannot be written"));
}

TEST_F(SweepCommand, DrawsEachCurveInAColourOfItsOwn) {
  const std::string path = folder_ / "sweep.png";
  const Outcome outcome = Run({"--model", "dense", "--model", "other", "--over", "resolution",
                               "--values", "64,128,256", "--png", path});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const RgbImage picture = ReadPng(path);
  // In four plots a line across each, four pixels wide; the legends alone have some 1,300 pixels.
  EXPECT_GT(PixelsOf(picture, {0, 114, 178}), 5'000);
  EXPECT_GT(PixelsOf(picture, {213, 94, 0}), 5'000);
  EXPECT_EQ(PixelsOf(picture, {0, 158, 115}), 0) << "there is no third curve";
  EXPECT_GT(PixelsOf(picture, {255, 255, 255}), picture.height * picture.width / 2);
}

TEST_F(SweepCommand, CtrlCEndsIt) {
  LiveOutput err;
  std::ostringstream out;
  int exit_code = -1;
  std::thread sweeping([&] {
    exit_code = RunFovea({"--server", server_.address(), "sweep", Image("a.jpg", "slow"), "--model",
                          "dense", "--over", "batch", "--values", "1,2"},
                         {.out = out, .err = err, .progress = true});
  });
  EXPECT_TRUE(err.WaitFor("round 7 of 20"));
  ::raise(SIGINT);
  sweeping.join();
  EXPECT_EQ(exit_code, 130);
  EXPECT_THAT(out.str(), IsEmpty());
  EXPECT_THAT(err.text(), Not(HasSubstr("fovea:"))) << "it is no failure";
}

TEST_F(SweepCommand, FailsWhereNothingCouldBeMeasured) {
  const std::string page = folder_ / "sweep.html";
  const Outcome outcome =
      Run({"--model", "dense", "--over", "batch", "--values", "13", "--report", page});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(Read(page), HasSubstr(">dense: not measured<"));
  EXPECT_THAT(outcome.out, HasSubstr("Not measured: dense at batch 13"));
  const Outcome unknown = Run({"--model", "nobody", "--over", "batch", "--values", "1"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("model 'nobody' is not loaded"));
  EXPECT_EQ(Run({"--model", "dense", "--over", "colour", "--values", "1"}).exit_code, 2);
  EXPECT_EQ(Run({"--model", "dense", "--over", "batch"}).exit_code, 2);
}

}  // namespace
}  // namespace fovea::client
