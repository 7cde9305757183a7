#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "server/lifecycle/options.h"

namespace fovea {
namespace {

using testing::HasSubstr;

// A file with this text, and what the command line with it says.
class ConfigFileTest : public testing::Test {
 protected:
  ParsedCommandLine Parse(const std::string& text, std::vector<std::string> flags = {}) {
    std::ofstream(path_) << text;
    flags.insert(flags.begin(), {"fovea-server", "--config", path_});
    std::vector<const char*> arguments;
    for (const std::string& flag : flags) arguments.push_back(flag.c_str());
    return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
  }

  // What standard error is told of a file that is refused.
  std::string Refusal(const std::string& text) {
    testing::internal::CaptureStderr();
    const ParsedCommandLine parsed = Parse(text);
    std::string told = testing::internal::GetCapturedStderr();
    EXPECT_FALSE(parsed.serve) << text;
    EXPECT_EQ(parsed.exit_code, 2) << text;
    return told;
  }

  const std::string path_ = testing::TempDir() + "fovea_config_file_test.toml";
};

TEST_F(ConfigFileTest, AKeyIsAFlagWithoutItsDashes) {
  const auto parsed = Parse(
      "# a remark\n"
      "model-repository = [\"/srv/a, b # c\", \"/srv/\\\"d\\\"\"]  # another\n"
      "grpc-port = 9001\n"
      "metrics-port = -1\n"
      "exit-on-load-error = true\n"
      "max-device-bytes = '2GiB'\n"
      "access-log = \"all\"\n");
  ASSERT_TRUE(parsed.serve);
  EXPECT_THAT(parsed.options.model_repositories,
              testing::ElementsAre("/srv/a, b # c", "/srv/\"d\""));
  EXPECT_EQ(parsed.options.grpc_port, 9001);
  EXPECT_EQ(parsed.options.metrics_port, -1);
  EXPECT_TRUE(parsed.options.exit_on_load_error);
  EXPECT_EQ(parsed.options.max_device_bytes, uint64_t{2} << 30);
  EXPECT_EQ(parsed.options.access_log, "all");
  EXPECT_EQ(parsed.options.http_port, 8000) << "what no file says is the default";
}

TEST_F(ConfigFileTest, TheFlagGoesBeforeTheVariableAndTheVariableBeforeTheFile) {
  const std::string file = "model-repository = \"m\"\ngrpc-port = 1001\nload-model = []\n";
  EXPECT_EQ(Parse(file).options.grpc_port, 1001);
  setenv("FOVEA_GRPC_PORT", "1002", 1);
  EXPECT_EQ(Parse(file).options.grpc_port, 1002);
  EXPECT_EQ(Parse(file, {"--grpc-port", "1003"}).options.grpc_port, 1003);
  unsetenv("FOVEA_GRPC_PORT");
}

TEST_F(ConfigFileTest, RepeatedFlagsReplaceThoseOfTheFile) {
  const auto parsed = Parse("model-repository = [\"a\", \"b\"]\n", {"--model-repository", "c"});
  EXPECT_THAT(parsed.options.model_repositories, testing::ElementsAre("c"));
}

TEST_F(ConfigFileTest, WhatIsWrongIsToldWithFileAndLine) {
  EXPECT_THAT(
      Refusal("model-repository = \"m\"\ngrpc-prot = 1\n"),
      HasSubstr(path_ + ", line 2: unknown key 'grpc-prot'; the keys are the flags of fovea-server "
                        "--help, without their dashes; did you mean 'grpc-port'?"));
  EXPECT_THAT(Refusal("[server]\ngrpc-port = 1\n"), HasSubstr("line 1: unknown key 'server'"));
  EXPECT_THAT(Refusal("\n\ngrpc-port = 1\ngrpc-port = 2\n"), HasSubstr("line 4: "));
  EXPECT_THAT(Refusal("host = \"a\n"), HasSubstr("line 1: "));
  EXPECT_THAT(Refusal("# A\nhost = localhost\n"), HasSubstr(", line 2: 'host = localhost': "));
  EXPECT_THAT(Refusal("host = 1979-05-27\n"), HasSubstr("line 1: host takes numbers"));
  EXPECT_THAT(Refusal("host = [[\"a\"]]\n"), HasSubstr("line 1: host takes numbers"));
  for (const char* key : {"api-keys-file", "tls-client-ca", "tls-cert", "host"}) {
    EXPECT_THAT(Refusal(std::string("model-repository = \"m\"\n") + key + " = \"\"\n"),
                HasSubstr(std::string("line 2: ") + key + " is empty"));
  }
  EXPECT_THAT(Refusal("load-model = [\"a\", \"\"]\n"), HasSubstr("load-model is empty"));
  EXPECT_THAT(Refusal("help = true\n"), HasSubstr("unknown key 'help'"));
  EXPECT_THAT(Refusal("config = \"other.toml\"\n"), HasSubstr("unknown key 'config'"));
  EXPECT_THAT(Refusal("check-config = true\n"), HasSubstr("unknown key 'check-config'"));
  // What CLI11 or the flags together find wrong.
  for (const char* line :
       {"grpc-port = 70000", "grpc-port = [1, 2]", "grpc-port = 8002", "drain-delay = 1.5",
        "access-log = \"some\"", "max-message = 257", "tls-cert = \"c\"", "triton-metrics = 7.5",
        "triton-metrics = [true, false]", "load-model = \"x\"", "max-gpu-bytes = \"much\""}) {
    EXPECT_THAT(Refusal(std::string("model-repository = \"m\"\n") + line + "\n"),
                testing::StartsWith(path_ + ", line 2: "))
        << line;
  }
}

TEST_F(ConfigFileTest, AFileThatIsNotThereIsAMistake) {
  const char* arguments[] = {"fovea-server", "--model-repository", "m", "--config", "/nope.toml"};
  EXPECT_EQ(ParseCommandLine(5, arguments).exit_code, 2);
}

TEST_F(ConfigFileTest, WhatIsEffectiveIsAFileThatGivesTheSameAgain) {
  const auto first =
      Parse("model-repository = [\"a \\\"b\\\"\", \"7\"]\nlog-format = \"json\"\n",
            {"--grpc-port", "0", "--exit-on-load-error", "--max-device-bytes", "1GiB"});
  ASSERT_TRUE(first.serve);
  const auto second = Parse(first.effective);
  ASSERT_TRUE(second.serve) << first.effective;
  EXPECT_EQ(second.effective, first.effective);
  EXPECT_EQ(second.options.model_repositories, first.options.model_repositories);
  EXPECT_EQ(second.options.max_device_bytes, first.options.max_device_bytes);
  EXPECT_THAT(first.effective, HasSubstr("grpc-port = 0\n"));
  EXPECT_THAT(first.effective, HasSubstr("exit-on-load-error = true\n"));
  EXPECT_THAT(first.effective, HasSubstr("load-model = []\n"));
  EXPECT_THAT(first.effective, HasSubstr("http-port = 8000\n")) << "defaults too";
  EXPECT_THAT(first.effective, HasSubstr("# tls-client-ca = \"\"\n")) << "there is none";
}

}  // namespace
}  // namespace fovea
