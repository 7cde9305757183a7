#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/fake_server.h"
#include "tests/client/run_fovea.h"

namespace fovea::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

class Classify : public FoveaTest {
 protected:
  Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address(), "classify"});
    return Fovea(arguments);
  }

  FakeServer server_{{.name = "shapes"}};
};

TEST_F(Classify, PrintsTheClassesOfAnImage) {
  const std::string path = Image("a.jpg");
  const Outcome outcome = Run({"--model", "shapes", "--top-k", "2", path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string space(path.size(), ' ');
  EXPECT_EQ(outcome.out, "IMAGE" + space.substr(5) + "  LABEL   CONFIDENCE\n" +  //
                             path + "  circle      75.0 %\n" +                   //
                             space + "  square      20.0 %\n");
}

TEST_F(Classify, PrintsTheReceiptWhereItIsAskedFor) {
  const std::string path = Image("a.jpg");
  EXPECT_THAT(Run({path}).out, Not(HasSubstr("Receipt")));
  const std::string out = Run({"--receipt", path}).out;
  const std::string row = out.substr(out.find(path, out.find("Receipt")));
  EXPECT_EQ(row, path +
                     "      1      3.00     0.01    0.40        0.30   0.02     2.00         0.01"
                     "    0.01   2.75\n");
}

TEST_F(Classify, OneBadFileFailsAlone) {
  const std::string good = Image("a.jpg"), bad = Image("b.jpg", "bad"), other = Image("c.jpg");
  const Outcome outcome = Run({good, bad, other, folder_ / "missing.jpg"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr(good));
  EXPECT_THAT(outcome.out, HasSubstr(other));
  EXPECT_THAT(outcome.out, Not(HasSubstr(bad)));
  EXPECT_EQ(outcome.err, "fovea: " + bad + ": the image is no JPEG, PNG or WebP file\n" +
                             "fovea: " + (folder_ / "missing.jpg").string() +
                             ": cannot be read: No such file or directory\n");
}

TEST_F(Classify, PrintsFilesInTheOrderOfTheCommandLine) {
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) paths.push_back(Image(std::to_string(i) + ".jpg"));
  const Outcome outcome = Run(paths);
  EXPECT_EQ(outcome.exit_code, 0);
  size_t at = 0;
  for (const std::string& path : paths) {
    at = outcome.out.find(path + " ", at);
    ASSERT_NE(at, std::string::npos) << path;
  }
}

TEST_F(Classify, ExpandsPatterns) {
  Image("a.jpg");
  Image("b.jpg");
  Image("c.txt");
  EXPECT_EQ(Run({folder_ / "*.jpg"}).exit_code, 0);
  EXPECT_EQ(server_.classified().size(), 2u);
  const Outcome nothing = Run({folder_ / "*.gif"});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.err, HasSubstr("*.gif: no file matches this pattern"));
}

TEST_F(Classify, SendsRequestsConcurrentlyUpToABound) {
  std::vector<std::string> arguments = {"--concurrency", "4"};
  for (int i = 0; i < 12; ++i) arguments.push_back(Image(std::to_string(i) + ".jpg"));
  server_.WaitForCompany(4);
  EXPECT_EQ(Run(arguments).exit_code, 0);
  EXPECT_EQ(server_.most_at_once(), 4);
}

TEST_F(Classify, EndsARequestAtItsTimeout) {
  const Outcome outcome = Run({"--timeout", "50ms", Image("a.jpg", "slow")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("a.jpg: no answer within 50ms"));
}

TEST_F(Classify, PrintsJson) {
  const Outcome outcome = Run({"--json", "--top-k", "1", Image("a.jpg"), Image("b.jpg", "bad")});
  EXPECT_EQ(outcome.exit_code, 1);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["model"], "shapes");
  ASSERT_EQ(json["results"].size(), 2u);
  const Json& good = json["results"][0];
  EXPECT_EQ(good["classes"],
            Json::parse(R"([{"index": 0, "label": "circle", "confidence": 0.75, "logit": 3.0}])"));
  EXPECT_EQ(good["receipt"]["compute_ns"], 2'000'000);
  EXPECT_EQ(good["receipt"]["batch_peak_bytes"], 3 << 20);
  EXPECT_EQ(json["results"][1]["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(json["results"][1]["error"]["reason"], "image.unknown_format");
}

TEST_F(Classify, JsonOfAFileNameThatIsNoUtf8IsStillJson) {
  const Outcome outcome = Run({"--json", Image("a\xFF.jpg")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(Json::parse(outcome.out)["results"].size(), 1u);
}

TEST(ClassifyWithoutAModel, TakesTheOnlyClassifierThatIsReady) {
  FakeServer server{{.name = "broken", .state = "UNAVAILABLE"},
                    {.name = "boxes", .task = "detection"},
                    {.name = "shapes"}};
  EXPECT_EQ(Fovea({"--server", server.address(), "classify", "/dev/null"}).exit_code, 0);
  EXPECT_THAT(server.classified(), ::testing::ElementsAre("shapes"));
}

TEST(ClassifyWithoutAModel, AsksForOneWhereThereAreSeveral) {
  FakeServer server{{.name = "shapes"}, {.name = "shapes_knn"}};
  const Outcome outcome = Fovea({"--server", server.address(), "classify", "/dev/null"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "fovea: choose one with --model: the server has shapes, shapes_knn\n");
}

TEST(ClassifyWithoutAModel, FailsWhereThereIsNone) {
  FakeServer server{{.name = "boxes", .task = "detection"}};
  const Outcome outcome = Fovea({"--server", server.address(), "classify", "/dev/null"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "fovea: the server has no classification model that is ready\n");
}

TEST_F(FoveaTest, SaysThatTheLabelsOfAnUntrainedModelMeanNothing) {
  FakeServer server{{.name = "noise", .untrained = true}};
  const Outcome outcome = Fovea({"--server", server.address(), "classify", Image("a.jpg")});
  EXPECT_THAT(outcome.out, HasSubstr("The weights of noise are random numbers"));
}

}  // namespace
}  // namespace fovea::client
