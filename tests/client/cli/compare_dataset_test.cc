// fovea compare --dataset, with a program in fovea-evaluate's place that prints what the test
// wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/dataset_figures.h"
#include "tests/client/cli/run_fovea.h"
#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

json Interval(double lower, double upper) { return {{"lower", lower}, {"upper", upper}}; }

// Of two variants, as fovea-evaluate prints it.
json Document() {
  const json dense = {{"answered", 40},
                      {"failed", json::array()},
                      {"figures", {{"box AP", 0.5}, {"box AP75", nullptr}}},
                      {"intervals", {{"box AP", Interval(0.45, 0.56)}}},
                      {"differences", json::object()},
                      {"difference_intervals", json::object()}};
  const json knn = {{"answered", 39},
                    {"failed", {{{"picture", "7.jpg"}}}},
                    {"figures", {{"box AP", 0.4}, {"box AP75", 0.25}}},
                    {"intervals", {{"box AP", Interval(0.35, 0.46)}}},
                    {"differences", {{"box AP", -0.1}}},
                    {"difference_intervals", {{"box AP", Interval(-0.125, 0.0625)}}}};
  return {{"dataset", "things/"},  {"task", "detection"},
          {"pictures", 40},        {"shown", {"box AP", "box AP75"}},
          {"unfinished", nullptr}, {"models", {dense, knn}}};
}

TEST(DatasetFigures, AreReadAndToldWithTheirIntervals) {
  const auto figures = ReadDatasetFigures(Document().dump());
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(DatasetConditions(*figures), "things/: detection, 40 pictures");
  EXPECT_THAT(DatasetRows(*figures, {"dense", "knn"}),
              ElementsAre(ElementsAre("Data set", "Figure", "Value", "95 % interval", "Difference",
                                      "95 % interval"),
                          ElementsAre("dense", "box AP", "0.5000", "0.4500 to 0.5600", "", ""),
                          ElementsAre("dense", "box AP75", "-", "-", "", ""),
                          ElementsAre("knn", "box AP", "0.4000", "0.3500 to 0.4600", "-0.1000",
                                      "-0.1250 to +0.0625"),
                          ElementsAre("knn", "box AP75", "0.2500", "-", "-", "-")));
  EXPECT_THAT(DatasetNotes(*figures, {"dense", "knn"}),
              ElementsAre("knn: 1 of 40 pictures of the data set failed and do not count."));
  std::vector<std::string> columns;
  std::vector<std::optional<double>> values;
  for (const auto& [column, value] : DatasetFields(*figures, 1)) {
    columns.push_back(column);
    values.push_back(value);
  }
  EXPECT_EQ(columns[5], "dataset_box_ap_difference_upper");
  constexpr std::nullopt_t kNone = std::nullopt;
  EXPECT_THAT(values, ElementsAre(0.4, 0.35, 0.46, -0.1, -0.125, 0.0625, 0.25, kNone, kNone, kNone,
                                  kNone, kNone));
}

TEST(DatasetFigures, OfTooFewPicturesHaveNoIntervals) {
  json document = Document();
  for (json& model : document["models"]) model["intervals"] = json::object();
  const auto figures = ReadDatasetFigures(document.dump());
  ASSERT_TRUE(figures.ok());
  EXPECT_THAT(DatasetNotes(*figures, {"dense", "knn"}),
              testing::Contains("The data set has too few pictures for intervals."));
}

TEST(DatasetFigures, SomethingElseIsAnError) {
  json lacking = Document();
  lacking["models"][0].erase("intervals");
  for (const std::string& text :
       {std::string("no JSON"), std::string("{}"), std::string("[1]"), lacking.dump()}) {
    EXPECT_TRUE(absl::IsInternal(ReadDatasetFigures(text).status())) << text;
  }
}

class CompareDataset : public FoveaTest {
 protected:
  void SetUp() override {
    FoveaTest::SetUp();
    path_ = std::getenv("PATH");
    ::setenv("PATH", absl::StrCat(folder_.string(), ":", path_).c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("FOVEA_API_KEY");
    FoveaTest::TearDown();
  }

  // Notes its arguments, prints `text` and exits with `exit_code`.
  void Install(const std::string& text, int exit_code) {
    const std::filesystem::path program = folder_ / "fovea-evaluate";
    std::ofstream(folder_ / "answer") << text;
    std::ofstream(program) << "#!/bin/sh\nprintf '%s\\n' \"$@\" > " << (folder_ / "arguments")
                           << "\necho $FOVEA_API_KEY > " << (folder_ / "key") << "\ncat "
                           << (folder_ / "answer") << "\nexit " << exit_code << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  std::string Content(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  Outcome Run(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {
        "--server", server_.address(), "compare", Image("a.jpg"), "--model",
        "dense/1",  "--attention",     "knn:k=5", "--dataset",    "things/"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Fovea(arguments);
  }

  FakeServer server_{{.name = "dense"}};
  std::string path_;
};

TEST_F(CompareDataset, StandsBesideTheTimes) {
  Install(Document().dump(), 0);
  const Outcome outcome =
      Run({"--limit", "40", "--task", "detection", "--images", "jpg", "--by-number"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(
      Content("arguments"),
      absl::StrCat(
          "--server\n", server_.address(),
          "\n--json\n--rounds\n0\n--dataset\nthings/\n--model\ndense/1\n--attention\nknn:k=5\n"
          "--limit\n40\n--task\ndetection\n--images\njpg\n--by-number\n"));
  EXPECT_THAT(outcome.out, HasSubstr("COMPUTE "));
  EXPECT_THAT(outcome.out,
              ContainsRegex("\nDATA SET +FIGURE +VALUE +95 % INTERVAL +DIFFERENCE +95 % INTERVAL\n"
                            "dense +box AP +0.5000 +0.4500 to 0.5600\n"));
  EXPECT_THAT(outcome.out, HasSubstr("-0.1000  -0.1250 to +0.0625\n"));
  EXPECT_THAT(outcome.out, HasSubstr("knn:k=5: same weights as dense, not fine-tuned.\n"));
  EXPECT_THAT(outcome.out, HasSubstr("DATA SET is things/: detection, 40 pictures"));
}

TEST_F(CompareDataset, StandsInEveryForm) {
  Install(Document().dump(), 0);
  const std::string page = folder_ / "report.html";
  const json whole = json::parse(Run({"--json", "--report", page}).out);
  EXPECT_EQ(whole["dataset"], Document());
  EXPECT_THAT(Content("report.html"), HasSubstr("<h2>Data set</h2>"));
  EXPECT_THAT(Content("report.html"), HasSubstr("-0.1250 to +0.0625"));
  const std::string csv = Run({"--csv"}).out;
  EXPECT_THAT(csv, HasSubstr(",dataset_box_ap,dataset_box_ap_lower,"));
  EXPECT_THAT(csv, ContainsRegex(",0.4,0.35,0.46,-0.1,-0.125,0.0625,0.25,"));
  const size_t head = csv.find('\n');
  const auto commas = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  EXPECT_EQ(commas(csv.substr(0, head)),
            commas(csv.substr(head + 1, csv.find('\n', head + 1) - head - 1)));
  Install("", 0);
  EXPECT_THAT(Content("report.html"), Not(HasSubstr("http")));
}

TEST_F(CompareDataset, PicturesThatFailAreInTheExitCode) {
  Install(Document().dump(), 1);
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("1 of 40 pictures of the data set failed"));
}

TEST_F(CompareDataset, WhatCannotBeMeasuredIsNotCompared) {
  Install("", 2);  // it has said why
  EXPECT_EQ(Run().exit_code, 2);
  json unfinished = Document();
  unfinished["unfinished"] = "dense with knn:k=5";
  Install(unfinished.dump(), 130);
  EXPECT_EQ(Run().exit_code, 130);
  Install("figures", 0);
  const Outcome else_ = Run();
  EXPECT_EQ(else_.exit_code, 1);
  EXPECT_THAT(else_.err, HasSubstr("fovea-evaluate prints something else than its figures"));
  json one = Document();
  one["models"].erase(1);
  Install(one.dump(), 0);
  EXPECT_EQ(Run().exit_code, 1);
  EXPECT_THAT(server_.compared(), IsEmpty());
}

TEST_F(CompareDataset, TheKeyIsNoArgument) {
  Install(Document().dump(), 0);
  std::vector<std::string> arguments = {"--server",    server_.address(), "--api-key", "secret",
                                        "compare",     Image("a.jpg"),    "--model",   "dense",
                                        "--attention", "knn:k=5",         "--dataset", "things/"};
  EXPECT_EQ(Fovea(arguments).exit_code, 0);
  EXPECT_EQ(Content("key"), "secret\n");
  EXPECT_THAT(Content("arguments"), Not(HasSubstr("secret")));
}

TEST_F(CompareDataset, ItsOptionsNeedIt) {
  const Outcome outcome = Fovea({"compare", "a.jpg", "--model", "dense", "--limit", "5"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--dataset"));
}

}  // namespace
}  // namespace fovea::client
