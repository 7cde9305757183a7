#include "server/scheduler/options.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/status.h"

namespace fovea {
namespace {

TEST(SchedulerOptionsTest, DefaultsAreValid) {
  EXPECT_TRUE(Validate(SchedulerOptions{}).ok());
  EXPECT_TRUE(Validate(ModelQueueOptions{}, SchedulerOptions{}).ok());
}

TEST(SchedulerOptionsTest, NamesTheFieldThatIsOutOfRange) {
  const SchedulerOptions scheduler{.device_threads = 4};
  struct Case {
    std::string field;
    std::function<void(ModelQueueOptions&)> spoil;
  };
  const Case cases[] = {
      {"max_batch_size", [](auto& o) { o.max_batch_size = 0; }},
      {"max_batch_size", [](auto& o) { o.max_batch_size = 1'000'000'000; }},
      {"preferred_batch_size",
       [](auto& o) {
         o.preferred_batch_sizes = {1, 2};
       }},
      {"preferred_batch_size", [](auto& o) { o.preferred_batch_sizes = {0}; }},
      {"max_queue_delay_us", [](auto& o) { o.max_queue_delay_us = -1; }},
      {"max_queue_size", [](auto& o) { o.policies[0].max_queue_size = 0; }},
      {"max_queue_size", [](auto& o) { o.policies[0].max_queue_size = 1'000'000'000; }},
      {"policies", [](auto& o) { o.policies.clear(); }},
      {"policies", [](auto& o) { o.policies.resize(1'000); }},
      {"max_queue_size", [](auto& o) { o.policies.push_back({.max_queue_size = 0}); }},
      {"default_deadline_us", [](auto& o) { o.default_deadline_us = 0; }},
      {"default_timeout_us", [](auto& o) { o.policies[0].default_timeout_us = -1; }},
      {"instances", [](auto& o) { o.instances = 0; }},
      {"threads_per_batch", [](auto& o) { o.threads_per_batch = {0}; }},
      {"rate_limiter_priority", [](auto& o) { o.rate_limiter_priority = 0; }},
      {"rate_limiter_priority", [](auto& o) { o.rate_limiter_priority = 1'001; }},
      {"threads_per_batch", [](auto& o) { o.threads_per_batch = {5}; }},
      {"threads_per_batch", [](auto& o) { o.threads_per_batch.clear(); }},
      {"threads_per_batch",
       [](auto& o) {
         o.threads_per_batch = {2, 2};
       }},
      {"threads_per_batch",
       [](auto& o) {
         o.threads_per_batch = {2, 1};
       }},
      {"threads_per_batch",
       [](auto& o) {
         o.threads_per_batch = {1, 3};
       }},
      {"instances",
       [](auto& o) {
         o.threads_per_batch = {1, 4};
       }},
      {"drain_timeout_us", [](auto& o) { o.drain_timeout_us = -1; }},
  };
  for (const Case& one : cases) {
    ModelQueueOptions options;
    one.spoil(options);
    const absl::Status status = Validate(options, scheduler);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << one.field;
    EXPECT_EQ(ReasonOf(status), "scheduler.bad_options");
    EXPECT_NE(std::string(status.message()).find(one.field), std::string::npos) << status;
  }
  EXPECT_FALSE(Validate(SchedulerOptions{.device_threads = 0}).ok());
  EXPECT_FALSE(Validate(SchedulerOptions{.fair_share_quantum_us = 0}).ok());
}

}  // namespace
}  // namespace fovea
