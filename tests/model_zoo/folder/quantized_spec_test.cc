// The description of a quantised model: that of the model, but for what it can no longer mean.
#include "model_zoo/folder/quantized_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model_zoo/folder/model_spec.h"

namespace fovea {
namespace {

using testing::StartsWith;

constexpr char kSpec[] = R"(# A comment.
spec_version: 1
name: "cats"
backbone: "vit_demo_patch8_64"
attention: "knn:k=0.5"
num_classes: 10
precision: BF16
max_batch_size: 8
dynamic_batching { max_queue_delay_microseconds: 500 }
preprocessing { crop_fraction: 1 }
)";

ModelSpec Quantized(const std::string& text) {
  const auto spec = QuantizedSpec(text, "cats_int8", "By a test.");
  EXPECT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(*spec, StartsWith("# By a test.\n"));
  const auto read = ParseModelSpec(*spec, "cats_int8");
  EXPECT_TRUE(read.ok()) << read.status();
  return *read;
}

TEST(QuantizedSpecTest, KeepsHowTheModelIsServed) {
  const ModelSpec spec = Quantized(kSpec);
  EXPECT_EQ(spec.description.precision, models::Precision::kInt8);
  EXPECT_EQ(spec.description.attention, std::vector<std::string>{"knn:k=0.5"});
  EXPECT_EQ(spec.max_batch_size, 8);
  EXPECT_EQ(spec.batching.max_queue_delay_us, 500);
  EXPECT_EQ(spec.preprocessing.crop_fraction, 1);
  EXPECT_FALSE(spec.untrained);
}

TEST(QuantizedSpecTest, HasWeightsOfItsOwnAndOneVersion) {
  const ModelSpec of_another = Quantized(std::string(kSpec) +
                                         "weights_of: \"dogs\"\n"
                                         "version_policy { specific { versions: 7 } }\n"
                                         "version_labels { key: \"stable\" value: 7 }\n");
  EXPECT_EQ(of_another.weights_of, "");
  EXPECT_EQ(of_another.version_policy.kind, VersionPolicy::Kind::kLatest);
  EXPECT_TRUE(of_another.version_labels.empty());
  const ModelSpec of_a_seed = Quantized(std::string(kSpec) + "random_weights { seed: 3 }\n");
  EXPECT_FALSE(of_a_seed.description.random_weights_seed.has_value());
  EXPECT_TRUE(of_a_seed.untrained);
}

TEST(QuantizedSpecTest, HasNoCanaryWhoseFilesItHasNot) {
  const std::string canary = "canary { input: \"cat.jpg\" top_class: \"cat\" }\n";
  EXPECT_FALSE(Quantized(kSpec + canary).canary.has_value());
}

TEST(QuantizedSpecTest, AsksForNoGpu) {
  const ModelSpec of_gpus = Quantized(
      std::string(kSpec) +
      "instance_group { kind: KIND_GPU gpus: [0, 2] count: 3 rate_limiter { priority: 2 } }");
  EXPECT_EQ(of_gpus.instances.kind, models::InstanceKind::kAuto);
  EXPECT_TRUE(of_gpus.instances.gpus.empty());
  EXPECT_EQ(of_gpus.instances.count, 0);
  EXPECT_EQ(of_gpus.instances.rate_limiter_priority, 2);
  const ModelSpec of_cpu =
      Quantized(std::string(kSpec) + "instance_group { kind: KIND_CPU count: 3 }");
  EXPECT_EQ(of_cpu.instances.kind, models::InstanceKind::kCpu);
  EXPECT_EQ(of_cpu.instances.count, 3);
}

TEST(QuantizedSpecTest, RefusesWhatIsNoDescription) {
  EXPECT_FALSE(QuantizedSpec("no spec", "cats_int8", "").ok());
}

}  // namespace
}  // namespace fovea
