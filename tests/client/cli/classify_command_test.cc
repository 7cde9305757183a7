#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/client/cli/run_fovea.h"
#include "tests/client/fake_server.h"

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

TEST_F(Classify, PrintsTheClassesOfAnImageOnALine) {
  const std::string path = Image("a.jpg");
  const Outcome outcome = Run({"--model", "shapes", "--top-k", "2", path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, path + ": circle 75.0 %, square 20.0 %\n");
}

TEST_F(Classify, PrintsTheReceiptWhereItIsAskedFor) {
  const std::string path = Image("a.jpg");
  EXPECT_THAT(Run({path}).out, Not(HasSubstr("compute")));
  EXPECT_EQ(
      Run({"--receipt", "--top-k", "1", path}).out,
      path + ": circle 75.0 %\n" +
          "  receive 0.01, decode 0.40, preprocess 0.30, queue 0.02, compute 2.00, "
          "postprocess 0.01, encode 0.01, total 2.75 ms; batch of 1 on 2 threads, peak 3.00 MiB\n");
}

TEST_F(Classify, SendsAnExperimentsKeyAndNamesTheArm) {
  const std::string path = Image("a.jpg");
  EXPECT_THAT(Run({"--receipt", "--experiment-key", "caller 7", path}).out,
              HasSubstr(" MiB; experiment night: shapes/caller 7\n"));
  const Json json = Json::parse(Run({"--json", "--experiment-key", "caller 7", path}).out);
  EXPECT_EQ(json["results"][0]["receipt"]["experiment"], "night");
  EXPECT_EQ(json["results"][0]["receipt"]["experiment_arm"], "shapes/caller 7");
  const Outcome outcome = Run({"--experiment-key", "caf\xC3\xA9", path});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("printable ASCII"));
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
    at = outcome.out.find(path + ": ", at);
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
  // (A model that is not named is asked for first, within the same time.)
  const Outcome outcome = Run({"--model", "shapes", "--timeout", "50ms", Image("a.jpg", "slow")});
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

TEST_F(Classify, JsonHasALineForEachImageAndCountsThem) {
  const Outcome outcome = Run({"--json", Image("a.jpg"), Image("b.jpg", "bad"), Image("c.jpg")});
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 5);  // head and tail
  EXPECT_EQ(Json::parse(outcome.out)["summary"],
            Json::parse(R"({"classified": 2, "failed": 1, "without_result": 0,
                            "interrupted": false})"));
}

TEST_F(Classify, JsonOfAFileNameThatIsNoUtf8IsStillJson) {
  const Outcome outcome = Run({"--json", Image("a\xFF.jpg")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(Json::parse(outcome.out)["results"].size(), 1u);
}

TEST_F(Classify, TakesFoldersWithTheFoldersBelowThem) {
  Image("top/b.JPG");
  Image("top/deep/er/a.webp");
  Image("top/c.txt");
  EXPECT_EQ(Run({"--top-k", "1", folder_ / "top"}).out,
            (folder_ / "top/b.JPG").string() + ": circle 75.0 %\n" +
                (folder_ / "top/deep/er/a.webp").string() + ": circle 75.0 %\n");
}

TEST_F(Classify, TakesAnImageFromStandardInput) {
  StandardInput input;
  input.Write("an image");
  input.Close();
  EXPECT_EQ(Run({"--top-k", "1", "-"}).out, "-: circle 75.0 %\n");
}

TEST_F(Classify, TakesNamesFromAList) {
  const std::string a = Image("a.jpg"), b = Image("b*.jpg"), c = Image("c.jpg");
  const std::string list = Image("list", b + "\n\n" + c);
  EXPECT_EQ(Run({"--top-k", "1", "--files-from", list, a}).out,
            a + ": circle 75.0 %\n" + b + ": circle 75.0 %\n" + c + ": circle 75.0 %\n");
  const Outcome missing = Run({"--files-from", folder_ / "none"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none: cannot be read: No such file or directory"));
  EXPECT_THAT(Run({"--files-from", Image("pixels", std::string(100'000, 'x'))}).err,
              HasSubstr("no file name is so long: is this a list of names?"));
}

// A classification that runs on a thread of its own.
class RunningClassify : public Classify {
 protected:
  void Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address(), "classify"});
    thread_ = std::thread([this, arguments] {
      exit_code_ = RunFovea(arguments, {.out = out_, .err = err_, .progress = progress_});
    });
  }
  int Join() {
    thread_.join();
    return exit_code_;
  }

  LiveOutput out_, err_;
  bool progress_ = false;
  int exit_code_ = -1;
  std::thread thread_;
};

TEST_F(RunningClassify, PrintsResultsAsTheyCome) {
  const std::string path = Image("a.jpg");
  StandardInput input;
  Start({"--files-from", "-"});
  for (int i = 0; i < 3; ++i) {
    const std::string other = Image(std::to_string(i) + ".jpg");
    input.Write(other + "\n");  // the list goes on
    EXPECT_TRUE(out_.WaitFor(other + ": circle"));
  }
  input.Close();
  EXPECT_EQ(Join(), 0) << err_.text();
}

TEST_F(RunningClassify, ShowsOnATerminalHowFarItIs) {
  progress_ = true;
  Start({Image("a.jpg"), Image("b.jpg", "bad")});
  EXPECT_EQ(Join(), 1);
  EXPECT_THAT(err_.text(), HasSubstr("1 classified, 1 failed of 2"));
  EXPECT_THAT(err_.text(), ::testing::EndsWith("\r\033[K"));  // and leaves nothing behind
}

TEST_F(RunningClassify, InterruptedPrintsWhatIsThere) {
  std::vector<std::string> arguments = {"--concurrency", "1"};
  for (const char* name : {"a.jpg", "b.jpg"}) arguments.push_back(Image(name));
  arguments.push_back(Image("c.jpg", "bad"));
  arguments.push_back(Image("d.jpg", "slow"));  // its answer never comes
  for (int i = 0; i < 40; ++i) arguments.push_back(Image(std::to_string(i) + ".jpg"));
  Start(arguments);
  EXPECT_TRUE(err_.WaitFor("c.jpg"));
  ::kill(::getpid(), SIGINT);
  EXPECT_EQ(Join(), 130);
  EXPECT_THAT(out_.text(), HasSubstr("b.jpg: circle"));
  EXPECT_THAT(err_.text(), HasSubstr("fovea: interrupted: 2 classified, 1 failed, "
                                     "41 not sent or without an answer\n"));
}

TEST_F(RunningClassify, InterruptedJsonIsStillJson) {
  StandardInput input;  // that goes on
  input.Write(Image("a.jpg") + "\n");
  Start({"--json", "--files-from", "-"});
  EXPECT_TRUE(out_.WaitFor("circle"));
  ::kill(::getpid(), SIGINT);
  EXPECT_EQ(Join(), 130);
  const Json json = Json::parse(out_.text());
  EXPECT_EQ(json["results"].size(), 1u);
  EXPECT_EQ(json["summary"]["interrupted"], true);
  EXPECT_EQ(json["summary"]["without_result"], nullptr);  // nobody knows how long the list was
}

TEST_F(RunningClassify, InterruptedWhileItWaitsForStandardInputEnds) {
  StandardInput input;
  Start({"--model", "shapes", "--json", "-"});
  EXPECT_TRUE(out_.WaitFor("results"));
  ::kill(::getpid(), SIGINT);
  EXPECT_EQ(Join(), 130);
}

TEST_F(Classify, StopsWithoutTheModelAndSaysWhyItIsNotLoaded) {
  FakeServer server{{.name = "broken",
                     .version = "",
                     .state = "UNAVAILABLE",
                     .reason = "the weights lack 'head.bias'"}};
  std::vector<std::string> arguments = {"--server", server.address(), "classify", "--model",
                                        "broken",   "--concurrency",  "1"};
  for (int i = 0; i < 5; ++i) arguments.push_back(Image(std::to_string(i) + ".jpg"));
  const Outcome outcome = Fovea(arguments);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "fovea: " + (folder_ / "0.jpg").string() +
                ": model 'broken' is not loaded: the weights lack 'head.bias'\n"
                "fovea: given up: 0 classified, 1 failed, 4 not sent or without an answer\n");
  EXPECT_EQ(server.classified().size(), 1u);
}

TEST_F(Classify, SaysThatTheRepositoryHasNoSuchModel) {
  EXPECT_THAT(Run({"--model", "shaeps", Image("a.jpg")}).err,
              HasSubstr("a.jpg: model 'shaeps' is not loaded: the repository has no model of that "
                        "name (see fovea models); did you mean 'shapes'?\n"));
}

TEST_F(RunningClassify, StopsWhenTheServerGoesAway) {
  std::vector<std::string> arguments = {"--concurrency", "1", Image("a.jpg")};
  for (int i = 0; i < 5; ++i) arguments.push_back(Image(std::to_string(i) + ".jpg", "slow"));
  Start(arguments);
  EXPECT_TRUE(out_.WaitFor("a.jpg: circle"));
  server_.Stop();
  EXPECT_EQ(Join(), 3);
  EXPECT_THAT(err_.text(), HasSubstr(" broke: has the server stopped?\n"));
  EXPECT_THAT(err_.text(), HasSubstr("fovea: given up: 1 classified, "));
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

TEST(ClassifyWithoutAModel, SaysWhyAModelIsNotReady) {
  FakeServer server{{.name = "broken", .state = "UNAVAILABLE", .reason = "no weights"}};
  EXPECT_EQ(Fovea({"--server", server.address(), "classify", "/dev/null"}).err,
            "fovea: the server has no classification model that is ready (broken: no weights)\n");
}

TEST_F(FoveaTest, SaysThatTheLabelsOfAnUntrainedModelMeanNothing) {
  FakeServer server{{.name = "noise", .untrained = true}};
  const Outcome outcome = Fovea({"--server", server.address(), "classify", Image("a.jpg")});
  EXPECT_THAT(outcome.out, HasSubstr("The weights of noise are random numbers"));
}

}  // namespace
}  // namespace fovea::client
