// fovea experiment start, show, list, stop and delete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/client/cli/run_fovea.h"
#include "tests/client/fake_experiments.h"
#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

class ExperimentCommand : public ::testing::Test {
 protected:
  Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", server_.address(), "experiment"});
    return Fovea(arguments);
  }

  // Of dense attention against k-NN, which gets a tenth of the traffic and copies.
  Outcome StartNight() {
    return Run({"start", "night", "--model", "shapes", "--baseline-weight", "9", "--arm",
                "attention=knn:k=9,weight=1,shadow"});
  }

  FakeExperiments server_;
};

TEST_F(ExperimentCommand, StartSendsThePlan) {
  const Outcome outcome = Run({"start",
                               "night",
                               "--model",
                               "shapes",
                               "--baseline-weight",
                               "8",
                               "--arm",
                               "attention=knn:k=9,exact,weight=1.5,shadow",
                               "--arm",
                               "model=shapes_knn,shadow",
                               "--arm",
                               "model=other/3,attention=dense",
                               "--max-latency-ratio",
                               "1.5",
                               "--max-disagreement",
                               "0.25",
                               "--max-error-excess",
                               "0.125",
                               "--max-time",
                               "90500ms",
                               "--max-shadow-share",
                               "0.5",
                               "--error-probability",
                               "0.25",
                               "--latency-margin",
                               "0.0625",
                               "--disagreement-margin",
                               "0.03125"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto plans = server_.plans();
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].name(), "night");
  EXPECT_EQ(plans[0].model_name(), "shapes");
  std::vector<std::string> arms;
  for (const auto& arm : plans[0].arms()) {
    std::ostringstream text;
    text << arm.variant().model_name() << '/' << arm.variant().model_version() << ' '
         << arm.variant().attention() << ' ' << arm.weight() << ' ' << arm.shadow();
    arms.push_back(text.str());
  }
  EXPECT_THAT(arms, ElementsAre("shapes/  8 0", "shapes/ knn:k=9,exact 1.5 1", "shapes_knn/  0 1",
                                "other/3 dense 1 0"));
  const auto& rails = plans[0].guard_rails();
  EXPECT_EQ(rails.max_latency_ratio(), 1.5);
  EXPECT_EQ(rails.max_disagreement(), 0.25);
  EXPECT_EQ(rails.max_error_excess(), 0.125);
  EXPECT_EQ(rails.max_seconds(), 91u) << "not less than was asked for";
  EXPECT_EQ(rails.max_shadow_share(), 0.5);
  EXPECT_EQ(plans[0].error_probability(), 0.25);
  EXPECT_EQ(plans[0].latency_margin(), 0.0625);
  EXPECT_EQ(plans[0].disagreement_margin(), 0.03125);
}

TEST_F(ExperimentCommand, StartLeavesTheDefaultsToTheServer) {
  EXPECT_EQ(StartNight().exit_code, 0);
  const auto plans = server_.plans();
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].guard_rails().max_seconds(), 0u);
  EXPECT_EQ(plans[0].guard_rails().max_latency_ratio(), 0);
  EXPECT_EQ(plans[0].error_probability(), 0);
}

TEST_F(ExperimentCommand, AnArmThatCannotBeMeantIsAMistakeInUsage) {
  for (const char* arm :
       {"", "knn:k=9", "weight=1,knn:k=9", "weight=many", "weight=-1", "weight=nan", "weight=inf",
        "attention=", "attention=knn:k=9,,shadow", "model=", "model=a/b/c", "shadow=yes"}) {
    const Outcome outcome = Run({"start", "night", "--model", "shapes", "--arm", arm});
    EXPECT_EQ(outcome.exit_code, 2) << arm;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(Run({"start", "night", "--model", "shapes"}).exit_code, 2);
  EXPECT_EQ(Run({"start", "night", "--arm", "shadow"}).exit_code, 2);
  EXPECT_THAT(Run({"start", "night", "--model", "shapes/2", "--arm", "shadow"}).err,
              HasSubstr("write --model shapes"));
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_EQ(Run({"paint"}).exit_code, 2);
  EXPECT_EQ(Run({"show"}).exit_code, 2);
  EXPECT_TRUE(server_.plans().empty());
}

TEST_F(ExperimentCommand, AMistakeInAnOptionNamesItAndItsHelp) {
  const auto refused = [&](const std::string& option, const std::string& value) {
    const Outcome outcome =
        Run({"start", "night", "--model", "shapes", "--arm", "shadow", option, value});
    EXPECT_EQ(outcome.exit_code, 2) << option;
    EXPECT_THAT(outcome.err, HasSubstr(option));
    EXPECT_THAT(outcome.err, HasSubstr("(see fovea experiment start --help)"));
    return outcome.err;
  };
  // The server refuses 1, too; 0 is its default there, which who leaves an option out asks for.
  for (const char* share :
       {"--max-disagreement", "--max-error-excess", "--latency-margin", "--disagreement-margin"}) {
    refused(share, "1");
    refused(share, "0");
  }
  EXPECT_THAT(refused("--max-time", "32d"), HasSubstr("--max-time: '32d' is no time: write"));
  EXPECT_TRUE(server_.plans().empty());
}

TEST_F(ExperimentCommand, ShowSaysHowEachArmDoesAgainstTheBaseline) {
  StartNight();
  const std::string first = Run({"show", "night"}).out;
  EXPECT_THAT(first, HasSubstr("night: running for 1m on the traffic of shapes\n"));
  EXPECT_THAT(first, HasSubstr("undecided: 1.180 [0.900, 1.500]"));
  const std::string second = Run({"show", "night"}).out;
  EXPECT_THAT(second, HasSubstr(R"(
ARM             MODEL               TRAFFIC  REQUESTS  FAILED  COPIES  SKIPPED  MEAN ms
shapes:dense    shapes/1             90.0 %       200       2                      4.00
shapes:knn:k=9  shapes/1  10.0 % and shadow       200       2      20        3     4.72

AGAINST shapes:dense  LATENCY                       OTHER ANSWERS  MORE FAILURES
shapes:knn:k=9        slower: 1.180 [1.120, 1.250]  -              -
)"));
  EXPECT_THAT(second, HasSubstr("\nshapes:knn:k=9: same weights as dense, not fine-tuned.\n"));
}

TEST_F(ExperimentCommand, ShowSaysTheSameInJson) {
  StartNight();
  Run({"show", "night"});
  const Json json = Json::parse(Run({"show", "night", "--json"}).out);
  EXPECT_EQ(json["state"], "RUNNING");
  EXPECT_EQ(json["running_seconds"], 121.0);
  EXPECT_EQ(json["plan"]["arms"][1]["variant"]["attention"], "knn:k=9");
  EXPECT_EQ(json["plan"]["arms"][0]["weight"], 9);
  EXPECT_EQ(json["arms"][0]["name"], "shapes:dense");
  EXPECT_EQ(json["arms"][0]["requests"], 200);
  EXPECT_FALSE(json["arms"][0].contains("latency_ratio"));
  EXPECT_FALSE(json["arms"][0].contains("weights_of_attention"));
  EXPECT_EQ(json["arms"][1]["weights_of_attention"], "dense");
  EXPECT_EQ(json["arms"][1]["shadow_skipped"], 3);
  EXPECT_EQ(json["arms"][1]["latency_ratio"]["lower"], 1.12);
  EXPECT_EQ(json["arms"][1]["latency_ratio"]["verdict"], "HIGHER");
}

TEST_F(ExperimentCommand, WatchGoesOnUntilItEnds) {
  StartNight();
  server_.EndAtLook(3);
  const Outcome outcome = Run({"show", "night", "--watch", "--every", "1ms"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("night: running for 1m on"));
  EXPECT_THAT(outcome.out, HasSubstr("night: running for 2m1s on"));
  EXPECT_THAT(outcome.out, HasSubstr("night: ended by a guard rail after 3m1s: the latency of an "
                                     "arm is above max_latency_ratio; all traffic of shapes goes "
                                     "to the baseline\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("4m"))) << "an experiment that has ended is left alone";
}

TEST_F(ExperimentCommand, WatchInJsonIsALineEachTime) {
  StartNight();
  server_.EndAtLook(2);
  std::istringstream lines(Run({"show", "night", "-w", "--every", "1ms", "--json"}).out);
  std::vector<std::string> states;
  for (std::string line; std::getline(lines, line);) states.push_back(Json::parse(line)["state"]);
  EXPECT_THAT(states, ElementsAre("RUNNING", "GUARD_RAIL"));
}

TEST_F(ExperimentCommand, CtrlCEndsWatching) {
  StartNight();
  LiveOutput out;
  std::ostringstream err;
  int exit_code = -1;
  std::thread watching([&] {
    exit_code = RunFovea(
        {"--server", server_.address(), "experiment", "show", "night", "--watch", "--every", "1h"},
        {.out = out, .err = err});
  });
  EXPECT_TRUE(out.WaitFor("whenever you like"));
  ::raise(SIGINT);
  watching.join();
  EXPECT_EQ(exit_code, 130);
  EXPECT_THAT(err.str(), IsEmpty());
}

TEST_F(ExperimentCommand, StopListAndDelete) {
  EXPECT_EQ(Run({"list"}).out, "There is no experiment.\n");
  StartNight();
  const Outcome running = Run({"delete", "night"});
  EXPECT_EQ(running.exit_code, 1);
  EXPECT_THAT(running.err, HasSubstr("the experiment runs"));
  EXPECT_THAT(Run({"stop", "night"}).out,
              HasSubstr("night: stopped after 0s: a caller stopped it"));
  EXPECT_EQ(Run({"list"}).out,
            "NAME   MODEL   STATE    FOR  ARMS  REQUESTS  REASON\n"
            "night  shapes  stopped   0s     2         0  a caller stopped it\n");
  EXPECT_EQ(Json::parse(Run({"list", "--json"}).out)["experiments"][0]["state"], "STOPPED");
  EXPECT_EQ(Run({"delete", "night"}).out, "deleted night\n");
  EXPECT_EQ(Run({"list"}).out, "There is no experiment.\n");
}

TEST_F(ExperimentCommand, SaysWhatTheServerRefuses) {
  const Outcome taken = Run({"start", "taken", "--model", "shapes", "--arm", "shadow"});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_EQ(taken.err, "fovea: there is an experiment 'taken'\n");
  for (const char* command : {"show", "stop", "delete"}) {
    const Outcome unknown = Run({command, "nobody"});
    EXPECT_EQ(unknown.exit_code, 1) << command;
    EXPECT_EQ(unknown.err, "fovea: there is no experiment 'nobody'\n");
  }
}

TEST_F(ExperimentCommand, AnAnswerThatIsNoExperimentIsAnError) {
  server_.LoseAnArm();
  const Outcome outcome = StartNight();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("has 1 arms, its plan 2"));
}

TEST(Experiment, AServerWithoutThemSaysSo) {
  FakeServer server{{.name = "shapes"}};
  const Outcome outcome = Fovea({"--server", server.address(), "experiment", "list"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("does not know fovea.v1.ExperimentService.ListExperiments"));
}

}  // namespace
}  // namespace fovea::client
