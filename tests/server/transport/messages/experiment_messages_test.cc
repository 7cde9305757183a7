#include "server/transport/messages/experiment_messages.h"

#include <gtest/gtest.h>

#include <string>

namespace fovea {
namespace {

// Every field differs from its default.
LiveExperiment Example() {
  const SequentialTest test{.estimate = 1.25,
                            .lower = 1.125,
                            .upper = 1.5,
                            .observations = 40,
                            .verdict = TestVerdict::kHigher};
  return {.plan = {.name = "trial",
                   .model_name = "vit",
                   .arms = {{.variant = {"vit", "2", "knn:k=9"}, .weight = 1, .shadow = true}}},
          .state = ExperimentState::kStopped,
          .reason = "a caller stopped it",
          .running = kSecond,
          .arms = {{.name = "vit/2:knn:k=9",
                    .model_name = "variant.vit",
                    .model_version = "3",
                    .attention = "knn:k=9",
                    .weights_of_attention = "dense",
                    .requests = 5,
                    .failures = 6,
                    .shadow_requests = 7,
                    .shadow_skipped = 8,
                    .mean_latency_ms = 9,
                    .latency_ratio = test,
                    .disagreement = test,
                    .error_excess = test}}};
}

TEST(ExperimentMessages, AnArmIsToldByItsNameBesideTheModelThatAnswers) {
  const v1::Experiment message = ToMessage(Example());
  ASSERT_EQ(message.arms_size(), 1);
  EXPECT_EQ(message.arms(0).name(), "vit/2:knn:k=9");
  EXPECT_EQ(message.arms(0).model_name(), "variant.vit");
  EXPECT_EQ(message.arms(0).model_version(), "3");
}

TEST(ExperimentMessages, EveryFieldOfAnArmIsTold) {
  const v1::Experiment message = ToMessage(Example());
  ASSERT_EQ(message.arms_size(), 1);
  const auto& fields = *v1::ArmReport::descriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    EXPECT_TRUE(message.arms(0).GetReflection()->HasField(message.arms(0), fields.field(i)))
        << fields.field(i)->name();
  }
}

}  // namespace
}  // namespace fovea
