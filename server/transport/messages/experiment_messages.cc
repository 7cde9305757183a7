#include "server/transport/messages/experiment_messages.h"

#include <algorithm>
#include <string>

#include "base/limits.h"
#include "base/status.h"
#include "server/transport/messages/checked_fields.h"
#include "server/transport/messages/comparison_messages.h"
#include "server/transport/messages/variant_messages.h"

namespace fovea {
namespace {

constexpr char kBadPlan[] = "experiment.bad_plan";

// 0 stands for what `value` is. Numbers that cannot be are told by who checks the plan.
void SetUnlessZero(double given, double* value) {
  if (given != 0) *value = given;
}

GuardRails ReadGuardRails(const v1::GuardRails& message) {
  GuardRails rails;
  SetUnlessZero(message.max_latency_ratio(), &rails.max_latency_ratio);
  rails.max_disagreement = message.max_disagreement();
  SetUnlessZero(message.max_error_excess(), &rails.max_error_excess);
  if (message.max_seconds() != 0) {
    // One more than may be stands for all that are more.
    constexpr uint64_t kMost = limits::kMaxExperimentSeconds + 1;
    rails.max_time = static_cast<Nanos>(std::min(message.max_seconds(), kMost)) * kSecond;
  }
  SetUnlessZero(message.max_shadow_share(), &rails.max_shadow_share);
  return rails;
}

void Fill(const ExperimentPlan& plan, v1::ExperimentPlan* message) {
  message->set_name(plan.name);
  message->set_model_name(plan.model_name);
  for (const ExperimentArm& arm : plan.arms) {
    v1::ExperimentArm& told = *message->add_arms();
    told.mutable_variant()->set_model_name(arm.variant.model_name);
    told.mutable_variant()->set_model_version(arm.variant.model_version);
    told.mutable_variant()->set_attention(arm.variant.attention);
    told.set_weight(arm.weight);
    told.set_shadow(arm.shadow);
  }
  v1::GuardRails& rails = *message->mutable_guard_rails();
  rails.set_max_latency_ratio(plan.guard_rails.max_latency_ratio);
  rails.set_max_disagreement(plan.guard_rails.max_disagreement);
  rails.set_max_error_excess(plan.guard_rails.max_error_excess);
  rails.set_max_seconds(static_cast<uint64_t>(plan.guard_rails.max_time / kSecond));
  rails.set_max_shadow_share(plan.guard_rails.max_shadow_share);
  message->set_error_probability(plan.error_probability);
  message->set_latency_margin(plan.latency_margin);
  message->set_disagreement_margin(plan.disagreement_margin);
}

v1::Experiment::State ToMessage(ExperimentState state) {
  switch (state) {
    case ExperimentState::kRunning:
      return v1::Experiment::RUNNING;
    case ExperimentState::kStopped:
      return v1::Experiment::STOPPED;
    case ExperimentState::kGuardRail:
      return v1::Experiment::GUARD_RAIL;
    case ExperimentState::kExpired:
      return v1::Experiment::EXPIRED;
    case ExperimentState::kModelGone:
      return v1::Experiment::MODEL_GONE;
  }
  return v1::Experiment::STATE_UNSPECIFIED;
}

v1::SequentialTest::Verdict ToMessage(TestVerdict verdict) {
  switch (verdict) {
    case TestVerdict::kUndecided:
      return v1::SequentialTest::UNDECIDED;
    case TestVerdict::kLower:
      return v1::SequentialTest::LOWER;
    case TestVerdict::kHigher:
      return v1::SequentialTest::HIGHER;
    case TestVerdict::kEquivalent:
      return v1::SequentialTest::EQUIVALENT;
  }
  return v1::SequentialTest::VERDICT_UNSPECIFIED;
}

void Fill(const SequentialTest& test, v1::SequentialTest* message) {
  message->set_estimate(test.estimate);
  message->set_lower(test.lower);
  message->set_upper(test.upper);
  message->set_observations(test.observations);
  message->set_verdict(ToMessage(test.verdict));
}

void Fill(const ArmReport& arm, v1::ArmReport* message) {
  message->set_name(arm.name);
  message->set_model_name(arm.model_name);
  message->set_model_version(arm.model_version);
  message->set_attention(arm.attention);
  message->set_weights_of_attention(arm.weights_of_attention);
  message->set_requests(arm.requests);
  message->set_failures(arm.failures);
  message->set_shadow_requests(arm.shadow_requests);
  message->set_shadow_skipped(arm.shadow_skipped);
  message->set_mean_latency_ms(arm.mean_latency_ms);
  if (arm.latency_ratio) Fill(*arm.latency_ratio, message->mutable_latency_ratio());
  if (arm.disagreement) Fill(*arm.disagreement, message->mutable_disagreement());
  if (arm.error_excess) Fill(*arm.error_excess, message->mutable_error_excess());
}

}  // namespace

absl::StatusOr<ExperimentPlan> ReadExperimentPlan(const v1::ExperimentPlan& message) {
  ExperimentPlan plan{.name = message.name(), .model_name = message.model_name()};
  FOVEA_RETURN_IF_ERROR(CheckLength(kBadPlan, "the name of a model", plan.model_name.size(),
                                    limits::kMaxModelNameBytes));
  for (const v1::ExperimentArm& arm : message.arms()) {
    ExperimentArm& read = plan.arms.emplace_back();
    FOVEA_ASSIGN_OR_RETURN(read.variant, ReadVariant(arm.variant(), kBadPlan));
    read.weight = arm.weight();
    read.shadow = arm.shadow();
  }
  plan.guard_rails = ReadGuardRails(message.guard_rails());
  SetUnlessZero(message.error_probability(), &plan.error_probability);
  SetUnlessZero(message.latency_margin(), &plan.latency_margin);
  SetUnlessZero(message.disagreement_margin(), &plan.disagreement_margin);
  return plan;
}

v1::Experiment ToMessage(const LiveExperiment& experiment) {
  v1::Experiment message;
  Fill(experiment.plan, message.mutable_plan());
  message.set_state(ToMessage(experiment.state));
  message.set_reason(experiment.reason);
  message.set_running_seconds(static_cast<double>(experiment.running) / kSecond);
  for (const ArmReport& arm : experiment.arms) Fill(arm, message.add_arms());
  Fill(experiment.measured, message.mutable_measured());
  return message;
}

v1::ListExperimentsResponse ToMessage(const std::vector<LiveExperiment>& experiments) {
  v1::ListExperimentsResponse message;
  for (const LiveExperiment& experiment : experiments) {
    *message.add_experiments() = ToMessage(experiment);
  }
  return message;
}

}  // namespace fovea
