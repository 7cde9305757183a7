#include "server/lifecycle/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"

namespace fovea {
namespace {

ParsedCommandLine Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "fovea-server");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

TEST(OptionsTest, DefaultsAreTritonsPortsOnLoopback) {
  const auto parsed = Parse({"--model-repository", "models"});
  ASSERT_TRUE(parsed.serve);
  EXPECT_EQ(parsed.options.host, "127.0.0.1");
  EXPECT_EQ(parsed.options.grpc_port, 8001);
  EXPECT_EQ(parsed.options.metrics_port, 8002);
  EXPECT_EQ(parsed.options.model_control_mode, "none");
}

TEST(OptionsTest, ThePlaygroundIsThereUnlessItIsTurnedOff) {
  EXPECT_EQ(Parse({"--model-repository", "m"}).options.playground, "on");
  EXPECT_EQ(Parse({"--model-repository", "m", "--playground", "off"}).options.playground, "off");
  EXPECT_EQ(Parse({"--model-repository", "m", "--playground", "perhaps"}).exit_code, 2);
}

TEST(OptionsTest, RepeatedFlagsAdd) {
  const auto parsed =
      Parse({"--model-repository", "a", "--model-repository", "b", "--model-control-mode",
             "explicit", "--load-model", "x", "--load-model", "y"});
  ASSERT_TRUE(parsed.serve);
  EXPECT_THAT(parsed.options.model_repositories, testing::ElementsAre("a", "b"));
  EXPECT_THAT(parsed.options.load_models, testing::ElementsAre("x", "y"));
}

TEST(OptionsTest, EveryFlagIsAnEnvironmentVariableToo) {
  setenv("FOVEA_GRPC_PORT", "9001", 1);
  setenv("FOVEA_MODEL_REPOSITORY", "models", 1);
  const auto parsed = Parse({});
  const auto overridden = Parse({"--grpc-port", "9002"});
  unsetenv("FOVEA_GRPC_PORT");
  unsetenv("FOVEA_MODEL_REPOSITORY");
  ASSERT_TRUE(parsed.serve);
  EXPECT_EQ(parsed.options.grpc_port, 9001);
  EXPECT_EQ(overridden.options.grpc_port, 9002);
}

TEST(OptionsTest, MistakesExitWithTwo) {
  EXPECT_EQ(Parse({}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--grpc-port", "70000"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--max-message", "257"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--no-such-flag"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--model-control-mode", "maybe"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--load-model", "x"}).exit_code, 2);
}

TEST(OptionsTest, MistakesSayWhereTheyAreAndWhatWasMeant) {
  const auto told = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"--model-repository", "m"});
    testing::internal::CaptureStderr();
    EXPECT_EQ(Parse(arguments).exit_code, 2);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told({"--grpc_port", "1"}), testing::HasSubstr("; did you mean '--grpc-port'?\n"));
  setenv("FOVEA_GRPC_PORT", "99999", 1);
  EXPECT_THAT(told({}), testing::StartsWith("FOVEA_GRPC_PORT: --grpc-port: Value 99999 not in"));
  EXPECT_THAT(told({"--grpc-port=88888"}), testing::StartsWith("--grpc-port: Value 88888 not in"));
  unsetenv("FOVEA_GRPC_PORT");
}

TEST(OptionsTest, TwoPortsThatAreOneAreAMistake) {
  EXPECT_EQ(Parse({"--model-repository", "m", "--http-port", "8001"}).exit_code, 2);
  EXPECT_TRUE(Parse({"--model-repository", "m", "--http-port", "0", "--grpc-port", "0"}).serve);
  EXPECT_TRUE(
      Parse({"--model-repository", "m", "--http-port", "-1", "--metrics-port", "-1"}).serve);
}

TEST(OptionsTest, CheckConfigAndPreStopServeNothing) {
  const auto check = Parse({"--model-repository", "m", "--check-config"});
  EXPECT_TRUE(check.check && !check.serve);
  const auto pre_stop = Parse({"--pre-stop", "--drain-delay", "5000"});  // without a repository
  EXPECT_TRUE(pre_stop.pre_stop && !pre_stop.serve);
  EXPECT_EQ(pre_stop.exit_code, 0);
  EXPECT_EQ(pre_stop.options.drain_delay_ms, 5000);
  EXPECT_FALSE(Parse({"--pre-stop", "--drain-delay", "soon"}).pre_stop);
}

TEST(OptionsTest, TracesAreOffUntilThereIsACollector) {
  const auto plain = Parse({"--model-repository", "m"});
  EXPECT_EQ(plain.options.otlp_endpoint, "");
  EXPECT_EQ(plain.options.trace_sampling, 1);
  EXPECT_EQ(Parse({"--model-repository", "m", "--otlp-ca", "c"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--trace-sampling", "1.5"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--trace-forced-per-second", "-1"}).exit_code, 2);
  const auto traced =
      Parse({"--model-repository", "m", "--otlp-endpoint", "collector:4317", "--trace-sampling",
             "0.25", "--otlp-resource", "a=b,c=d", "--otlp-resource", "e=f%2Cg"});
  ASSERT_TRUE(traced.serve);
  EXPECT_EQ(traced.options.trace_sampling, 0.25);
  EXPECT_THAT(traced.options.otlp_resource, testing::ElementsAre("a=b", "c=d", "e=f%2Cg"));
}

TEST(OptionsTest, OpenTelemetrysOwnVariablesNameTheService) {
  setenv("OTEL_SERVICE_NAME", "cats", 1);
  setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,zone=a", 1);
  const auto parsed = Parse({"--model-repository", "m"});
  unsetenv("OTEL_SERVICE_NAME");
  unsetenv("OTEL_RESOURCE_ATTRIBUTES");
  EXPECT_EQ(parsed.options.otlp_service_name, "cats");
  EXPECT_THAT(parsed.options.otlp_resource,
              testing::ElementsAre("deployment.environment=test", "zone=a"));
}

TEST(OptionsTest, TritonsMetricsAreAskedFor) {
  EXPECT_FALSE(Parse({"--model-repository", "m"}).options.triton_metrics);
  EXPECT_TRUE(Parse({"--model-repository", "m", "--triton-metrics"}).options.triton_metrics);
}

TEST(OptionsTest, TlsNeedsACertificateAndItsKey) {
  EXPECT_EQ(Parse({"--model-repository", "m", "--tls-cert", "c"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--tls-key", "k"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--tls-client-ca", "i"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--metrics-plaintext"}).exit_code, 2);
  const auto parsed = Parse({"--model-repository", "m", "--tls-cert", "c", "--tls-key", "k",
                             "--tls-client-ca", "i", "--metrics-plaintext"});
  ASSERT_TRUE(parsed.serve);
  EXPECT_EQ(parsed.options.tls_client_ca, "i");
  EXPECT_TRUE(parsed.options.metrics_plaintext);
}

TEST(OptionsTest, AFileWithoutANameIsAMistakeAndNotNone) {
  EXPECT_EQ(Parse({"--model-repository", "m", "--api-keys-file", ""}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--tls-cert", "", "--tls-key", ""}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--otlp-endpoint", ""}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--otlp-endpoint", "c:1", "--otlp-ca", ""}).exit_code,
            2);
  EXPECT_EQ(
      Parse({"--model-repository", "m", "--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", ""})
          .exit_code,
      2);
}

// docs/faults.md, row 98.
TEST(OptionsTest, AVariableThatIsSetAndEmptyIsAMistakeAndNotNone) {
  std::vector<std::string> variables;
  VisitCommandLine([&](const CLI::App& app) {
    for (const CLI::Option* option : app.get_options()) {
      const std::string& name = option->get_envname();
      if (name.starts_with("FOVEA_")) variables.push_back(name);
    }
  });
  EXPECT_THAT(variables,
              testing::IsSupersetOf({"FOVEA_API_KEYS_FILE", "FOVEA_TLS_CERT", "FOVEA_TLS_CLIENT_CA",
                                     "FOVEA_GRPC_API", "FOVEA_HTTP_API", "FOVEA_CONFIG"}));
  for (const std::string& name : variables) {
    setenv(name.c_str(), "", 1);
    testing::internal::CaptureStderr();
    const auto parsed = Parse({"--model-repository", "m"});
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::HasSubstr(name + " is set and empty"));
    EXPECT_EQ(parsed.exit_code, 2) << name;
    EXPECT_FALSE(parsed.serve) << name;
    unsetenv(name.c_str());
  }
}

TEST(OptionsTest, VariablesThatAreNoFlagsAreNamed) {
  const std::pair<const char*, const char*> variables[] = {
      {"FOVEA_GRPC_PRT", "9"},                // misspelt
      {"FOVEA_API_KEY_FILE", ""},             // misspelt, and empty
      {"FOVEA_CHOICES", "off"},               // the kernels'
      {"FOVEA_SERVER", "127.0.0.1:8001"},     // the command line's
      {"FOVEA_SERVICE_HOST", "10.0.0.1"},     // Kubernetes', of a service called fovea
      {"FOVEA_PORT", "tcp://10.0.0.1:8001"},  // the same
      {"FOVEA_PORT_8001_TCP_PROTO", "tcp"},   // the same
      {"FOVEA_HTTP_HEAD_TIMEOUT", "10000"}};  // a flag's
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  const auto parsed = Parse({"--model-repository", "m"});
  for (const auto& [name, value] : variables) unsetenv(name);
  EXPECT_TRUE(parsed.serve);
  const std::string told = absl::StrJoin(parsed.unknown_variables, "\n");
  EXPECT_THAT(
      told, testing::HasSubstr("variable FOVEA_GRPC_PRT does not belong to any flag; "
                               "fovea-server --help lists them; did you mean 'FOVEA_GRPC_PORT'?"));
  EXPECT_THAT(told, testing::HasSubstr("did you mean 'FOVEA_API_KEYS_FILE'?"));
  for (const auto& [name, value] : std::span(variables).subspan(2)) {
    EXPECT_THAT(parsed.unknown_variables,
                testing::Each(testing::Not(testing::HasSubstr(std::string(name) + " "))))
        << value;
  }
}

TEST(OptionsTest, PortsAnswerTheGroupsThatAreNamed) {
  EXPECT_TRUE(Parse({"--model-repository", "m"}).options.grpc_api.empty());
  const auto parsed = Parse(
      {"--model-repository", "m", "--grpc-api", "inference,metadata", "--http-api", "statistics"});
  ASSERT_TRUE(parsed.serve);
  EXPECT_THAT(parsed.options.grpc_api, testing::ElementsAre("inference", "metadata"));
  EXPECT_THAT(parsed.options.http_api, testing::ElementsAre("statistics"));
  EXPECT_EQ(Parse({"--model-repository", "m", "--http-api", "inference,all"}).exit_code, 2);
}

TEST(OptionsTest, FailedRequestsAreLoggedUnlessToldOtherwise) {
  EXPECT_EQ(Parse({"--model-repository", "m"}).options.access_log, "errors");
  const auto parsed =
      Parse({"--model-repository", "m", "--access-log", "all", "--access-log-sample", "100"});
  EXPECT_EQ(parsed.options.access_log, "all");
  EXPECT_EQ(parsed.options.access_log_sample, 100);
  EXPECT_EQ(Parse({"--model-repository", "m", "--access-log", "some"}).exit_code, 2);
  EXPECT_EQ(Parse({"--model-repository", "m", "--access-log-sample", "0"}).exit_code, 2);
}

TEST(OptionsTest, AFlagWithoutAValueHasAnEnvironmentVariableToo) {
  EXPECT_FALSE(Parse({"--model-repository", "m"}).options.exit_on_load_error);
  EXPECT_TRUE(
      Parse({"--model-repository", "m", "--exit-on-load-error"}).options.exit_on_load_error);
  setenv("FOVEA_EXIT_ON_LOAD_ERROR", "true", 1);
  EXPECT_TRUE(Parse({"--model-repository", "m"}).options.exit_on_load_error);
  unsetenv("FOVEA_EXIT_ON_LOAD_ERROR");
}

TEST(OptionsTest, DeviceBytesHaveUnits) {
  const auto bytes = [](const char* text) {
    return Parse({"--model-repository", "m", "--max-device-bytes", text}).options.max_device_bytes;
  };
  EXPECT_EQ(Parse({"--model-repository", "m"}).options.max_device_bytes, 0u);
  EXPECT_EQ(Parse({"--model-repository", "m"}).options.max_gpu_bytes, 0u);
  EXPECT_EQ(Parse({"--model-repository", "m", "--max-gpu-bytes", "2GiB"}).options.max_gpu_bytes,
            uint64_t{2} << 30);
  EXPECT_EQ(Parse({"--model-repository", "m", "--max-gpu-bytes", "-1"}).exit_code, 2);
  EXPECT_EQ(bytes("1000"), 1000u);
  EXPECT_EQ(bytes("512MiB"), 512u << 20);
  EXPECT_EQ(bytes("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(bytes("2GB"), uint64_t{2} << 30);
  for (const char* text : {"much", "-1", "2 parsecs"}) {
    EXPECT_EQ(Parse({"--model-repository", "m", "--max-device-bytes", text}).exit_code, 2) << text;
  }
}

TEST(OptionsTest, HelpAndVersionExitWithZero) {
  EXPECT_FALSE(Parse({"--help"}).serve);
  EXPECT_EQ(Parse({"--help"}).exit_code, 0);
  EXPECT_EQ(Parse({"--version"}).exit_code, 0);
}

}  // namespace
}  // namespace fovea
