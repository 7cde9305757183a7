// Where a model's instances run, as its description and a caller's configuration say it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/status.h"
#include "model_zoo/folder/model_spec.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<ModelSpec> Parse(const std::string& more, std::string_view config = {}) {
  return ParseModelSpec("spec_version: 1\nbackbone: \"deit_tiny_patch16_224\"\n" + more, "cats",
                        config);
}

TEST(InstanceGroupTest, SaysWhereInstancesRun) {
  EXPECT_EQ(Parse("")->instances.kind, models::InstanceKind::kAuto);
  const auto gpus = Parse("instance_group { kind: KIND_GPU gpus: [2, 0] count: 3 }");
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ(gpus->instances.kind, models::InstanceKind::kGpu);
  EXPECT_THAT(gpus->instances.gpus, ElementsAre(0, 2));
  EXPECT_EQ(gpus->instances.count, 3);
  const auto overridden =
      Parse("", R"({"instance_group": [{"kind": "KIND_GPU", "gpus": [1], "count": 1}]})");
  ASSERT_TRUE(overridden.ok()) << overridden.status();
  EXPECT_EQ(overridden->instances.kind, models::InstanceKind::kGpu);
  EXPECT_THAT(overridden->instances.gpus, ElementsAre(1));
  const std::string gpu = "instance_group { kind: KIND_GPU gpus: 3 }";
  const auto counted = Parse(gpu, R"({"instance_group": [{"count": 2}]})");
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->instances.kind, models::InstanceKind::kGpu);
  EXPECT_THAT(counted->instances.gpus, ElementsAre(3));
  EXPECT_EQ(counted->instances.count, 2);
  const auto on_cpu = Parse(gpu, R"({"instance_group": [{"kind": "KIND_CPU", "count": 1}]})");
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.status();
  EXPECT_EQ(on_cpu->instances.kind, models::InstanceKind::kCpu);
  EXPECT_TRUE(on_cpu->instances.gpus.empty());
}

TEST(InstanceGroupTest, Row30WhatCannotBeIsRefusedWithItsLine) {
  struct Bad {
    const char* text;
    const char* what;
  };
  for (const auto& [text, what] :
       {Bad{"instance_group { count: 1000 }", "count"},
        Bad{"instance_group { kind: KIND_CPU gpus: 0 }", "gpus mean nothing without KIND_GPU"},
        Bad{"instance_group { kind: KIND_GPU gpus: -1 }", "gpus is -1"},
        Bad{"instance_group { kind: KIND_GPU gpus: [1, 0, 1] }", "twice"},
        Bad{"instance_group { kind: KIND_TPU }", "KIND_TPU"},
        Bad{"instance_group { threads: -2 }", "threads is -2"},
        Bad{"instance_group { rate_limiter { priority: 1001 } }", "priority is 1001"}}) {
    const absl::Status refused = Parse(text).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << text;
    EXPECT_EQ(ReasonOf(refused), "model.bad_spec") << text;
    EXPECT_THAT(std::string(refused.message()), StartsWith("model.textproto:3: "));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(what));
  }
}

}  // namespace
}  // namespace fovea
