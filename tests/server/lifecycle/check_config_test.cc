#include "server/lifecycle/check_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/core/listen.h"

namespace fovea {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckConfigTest : public testing::Test {
 protected:
  CheckConfigTest() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    options_.model_repositories = {root_};
    options_.grpc_port = options_.http_port = options_.metrics_port = 0;
  }

  void WriteModel(const std::string& name, const std::string& spec) {
    std::filesystem::create_directories(root_ / name / "1");
    std::ofstream(root_ / name / "model.textproto") << spec;
  }

  std::vector<std::string> Faults() {
    std::vector<std::unique_ptr<RepositoryFs>> repositories;
    for (const auto& folder : options_.model_repositories) {
      repositories.push_back(MakeRepositoryFs(folder));
    }
    return CheckConfig(options_, std::move(repositories));
  }

  static constexpr char kGoodSpec[] =
      "spec_version: 1\nbackbone: \"deit_tiny_patch16_224\"\nrandom_weights { seed: 1 }\n";
  const std::filesystem::path root_ = testing::TempDir() + "fovea_check_config_test";
  ServerOptions options_;
};

TEST_F(CheckConfigTest, WhereNothingIsWrongThereIsNoFault) {
  WriteModel("good", kGoodSpec);
  EXPECT_THAT(Faults(), IsEmpty());
}

TEST_F(CheckConfigTest, EveryFaultIsToldAndNotOnlyTheFirst) {
  const auto taken = Listen("127.0.0.1", 0, "--grpc-port");
  ASSERT_TRUE(taken.ok());
  options_.grpc_port = options_.metrics_port = taken->port;
  WriteModel("good", kGoodSpec);
  WriteModel("bad", std::string(kGoodSpec) + "no_such_field: 1\n");
  WriteModel("empty", "spec_version: 1\nbackbone: \"deit_tiny_patch16_224\"\n");
  EXPECT_THAT(Faults(), ElementsAre(HasSubstr("--grpc-port"), HasSubstr("--metrics-port"),
                                    HasSubstr("model bad: "), HasSubstr("model empty")));
}

TEST_F(CheckConfigTest, WhatCallersNeedIsLookedAt) {
  WriteModel("good", kGoodSpec);
  options_.http_allow_origins = {"no origin"};
  options_.api_keys_file = root_ / "good/model.textproto";
  EXPECT_THAT(Faults(), ElementsAre(HasSubstr("no origin"), HasSubstr("--api-keys-file")));
  options_.http_allow_origins.clear();
  options_.tls_cert = options_.tls_key = root_ / "good/model.textproto";
  EXPECT_THAT(Faults(), ElementsAre(HasSubstr("--tls-cert")));
}

TEST_F(CheckConfigTest, ACollectorThatCannotBeOneIsAFault) {
  WriteModel("good", kGoodSpec);
  options_.otlp_endpoint = "http://collector:4317";
  EXPECT_THAT(Faults(), ElementsAre(HasSubstr("--otlp-endpoint")));
  options_.otlp_endpoint = "collector:4317";
  EXPECT_THAT(Faults(), IsEmpty());
  options_.otlp_resource = {"a=%zz"};
  EXPECT_THAT(Faults(), ElementsAre(HasSubstr("--otlp-resource")));
  options_.otlp_resource = {"a=%2c", "b="};
  options_.otlp_ca = root_ / "good/model.textproto";
  EXPECT_THAT(Faults(), ElementsAre(HasSubstr("--otlp-ca")));
  options_.otlp_endpoint.clear();  // then nobody looks at the others
  EXPECT_THAT(Faults(), IsEmpty());
}

TEST_F(CheckConfigTest, ARepositoryThatCannotBeReadIsAFault) {
  options_.model_repositories.push_back(root_ / "nowhere");
  WriteModel("bad", "no_such_field: 1\n");
  EXPECT_THAT(Faults(), ElementsAre(AllOf(HasSubstr("there is no folder"), HasSubstr("nowhere"))));
}

TEST_F(CheckConfigTest, WithExplicitControlOnlyTheNamedModelsHaveToBeThere) {
  options_.model_control_mode = "explicit";
  options_.load_models = {"good", "missing"};
  WriteModel("good", kGoodSpec);
  WriteModel("bad", "no_such_field: 1\n");
  EXPECT_THAT(Faults(), ElementsAre(HasSubstr("model missing: ")));
}

}  // namespace
}  // namespace fovea
