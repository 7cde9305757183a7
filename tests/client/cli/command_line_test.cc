// What the arguments alone decide: usage errors, help, the server's address.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/cli/run_fovea.h"
#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WrongUsage : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(WrongUsage, ExitsWith2AndOneSentence) {
  const Outcome outcome = Fovea(GetParam());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_EQ(outcome.err.substr(0, 7), "fovea: ");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    EachCommand, WrongUsage,
    ::testing::Values(std::vector<std::string>{"paint"},               // no such command
                      std::vector<std::string>{"--server"},            // no value
                      std::vector<std::string>{"models", "--colour"},  // no such option
                      std::vector<std::string>{"models", "extra"},
                      std::vector<std::string>{"classify"},  // no file
                      std::vector<std::string>{"classify", "--top-k", "0", "a.jpg"},
                      std::vector<std::string>{"classify", "--top-k", "few", "a.jpg"},
                      std::vector<std::string>{"classify", "--timeout", "never", "a.jpg"},
                      std::vector<std::string>{"classify", "--concurrency", "0", "a.jpg"},
                      std::vector<std::string>{"classify", "-", "--files-from", "-"},
                      std::vector<std::string>{"classify", "-", "-"},
                      std::vector<std::string>{"load"},  // no model
                      std::vector<std::string>{"unload"},
                      std::vector<std::string>{"compare", "a", "b"},  // no image
                      std::vector<std::string>{"compare", "a", "--image", "x.jpg"},
                      std::vector<std::string>{"compare", "a", "b", "--image", "x.jpg", "--pairs",
                                               "0"},
                      std::vector<std::string>{"experiment"},
                      std::vector<std::string>{"experiment", "paint"},
                      std::vector<std::string>{"experiment", "start", "night"},
                      std::vector<std::string>{"experiment", "start", "night", "--model", "shapes",
                                               "--arm", "shadow", "--max-latency-ratio", "0.5"},
                      std::vector<std::string>{"experiment", "start", "night", "--model", "shapes",
                                               "--arm", "shadow", "--max-shadow-share", "0"},
                      std::vector<std::string>{"--server", "nowhere", "models"}));

TEST(CommandLine, EveryExperimentCommandHasHelpWithAnExample) {
  for (const std::string command : {"start", "show", "list", "stop", "delete"}) {
    const Outcome outcome = Fovea({"experiment", command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("Usage: fovea experiment " + command));
    EXPECT_THAT(outcome.out, HasSubstr("Examples:\n  fovea experiment " + command));
    EXPECT_THAT(Fovea({"experiment", "--help"}).out, HasSubstr("\n  " + command + " "));
  }
}

TEST(CommandLine, WithoutArgumentsShowsTheHelpAndExitsWith2) {
  const Outcome outcome = Fovea({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("Usage: fovea"));
}

TEST(CommandLine, EveryCommandHasHelpWithAnExample) {
  for (const std::string command :
       {"models", "health", "classify", "compare", "sweep", "experiment", "stats", "load", "unload",
        "import", "capacity", "kernels"}) {
    const Outcome outcome = Fovea({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_EQ(Fovea({command, "-h"}).out, outcome.out);
    EXPECT_THAT(outcome.out, HasSubstr("Usage: fovea " + command));
    EXPECT_THAT(outcome.out, HasSubstr("Examples:\n  fovea " + command));
    EXPECT_THAT(Fovea({"--help"}).out, HasSubstr("\n  " + command + " "));
  }
}

TEST(CommandLine, HelpOfACommandIsItsHelp) {
  EXPECT_EQ(Fovea({"help"}).out, Fovea({"--help"}).out);
  EXPECT_EQ(Fovea({"help"}).exit_code, 0);
  EXPECT_EQ(Fovea({"help", "classify"}).out, Fovea({"classify", "--help"}).out);
  EXPECT_EQ(Fovea({"help", "import"}).out, Fovea({"import", "--help"}).out);
  EXPECT_EQ(Fovea({"help", "experiment", "start"}).out,
            Fovea({"experiment", "start", "--help"}).out);
  EXPECT_EQ(Fovea({"help", "paint"}).exit_code, 2);
  EXPECT_EQ(Fovea({"paint", "--help"}).exit_code, 2);
}

TEST(CommandLine, SaysWhatWasProbablyMeant) {
  const std::pair<std::vector<std::string>, std::string> rows[] = {
      {{"classfy", "a.jpg"}, "there is no command 'classfy'; did you mean 'classify'? (see "},
      {{"help", "classfy"}, "there is no command 'classfy'; did you mean 'classify'? (see "},
      {{"experiment", "strat"}, "there is no command 'strat'; did you mean 'start'? (see "},
      {{"classify", "--top_k", "3", "a.jpg"}, "--top_k; did you mean '--top-k'? (see "},
      {{"models", "--sever", "a:1"}, "; did you mean '--server'? (see "},
      {{"paint"}, "there is no command 'paint' (see "},
  };
  for (const auto& [arguments, sentence] : rows) {
    const Outcome outcome = Fovea(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(sentence));
  }
}

TEST(CommandLine, NamesHealthsServicesInTheHelpOfModels) {
  EXPECT_THAT(Fovea({"models", "--help"}).out, HasSubstr("\"model/NAME/VERSION\""));
}

TEST(CommandLine, NamesExitCodesInItsHelp) {
  EXPECT_THAT(Fovea({"--help"}).out,
              HasSubstr("0 ok, 1 a request failed, 2 usage, 3 the server cannot be reached, 130 "
                        "interrupted"));
}

TEST(CommandLine, ExitsWith3WhereNoServerAnswers) {
  std::string address;
  { address = FakeServer{}.address(); }
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"models"}, {"classify", "a.jpg"}, {"stats"}, {"load", "a"}, {"unload", "a"}}) {
    std::vector<std::string> arguments = {"--server", address};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const Outcome outcome = Fovea(arguments);
    EXPECT_EQ(outcome.exit_code, 3) << command[0];
    EXPECT_EQ(outcome.err,
              "fovea: nothing listens at " + address + ": is fovea-server running there?\n");
  }
}

TEST(CommandLine, TakesTheServerBeforeOrAfterTheCommandOrFromTheEnvironment) {
  FakeServer server{{.name = "shapes"}};
  EXPECT_EQ(Fovea({"--server", server.address(), "models"}).exit_code, 0);
  EXPECT_EQ(Fovea({"models", "--server", server.address()}).exit_code, 0);
  ::setenv("FOVEA_SERVER", server.address().c_str(), 1);
  EXPECT_EQ(Fovea({"models"}).exit_code, 0);
  EXPECT_EQ(Fovea({"models", "--server", "127.0.0.1:1"}).exit_code, 3);  // an option wins
  ::unsetenv("FOVEA_SERVER");
}

TEST(CommandLine, WhatIsGivenAndEmptyIsAMistakeAndNotNone) {
  FakeServer server{{.name = "shapes"}};
  for (const std::string name : {"SERVER", "TLS_CA", "TLS_CERT", "TLS_KEY", "API_KEY"}) {
    const std::string variable = "FOVEA_" + name;
    ::setenv(variable.c_str(), "", 1);
    const Outcome outcome = Fovea({"--server", server.address(), "models"});
    ::unsetenv(variable.c_str());
    EXPECT_EQ(outcome.exit_code, 2) << variable;
    EXPECT_THAT(outcome.err, HasSubstr(variable + " is set and empty"));
  }
  for (const std::string flag : {"--server", "--tls-ca", "--tls-cert", "--tls-key", "--api-key"}) {
    const Outcome outcome = Fovea({flag, "", "models"});
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    EXPECT_THAT(outcome.err, HasSubstr(flag)) << outcome.err;
  }
  const Outcome outcome = Fovea({"--server", server.address(), "--tls-ca", "/dev/null", "models"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("/dev/null is empty"));
}

}  // namespace
}  // namespace fovea::client
