#include "client/cpp/experiment_wire.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/comparison_wire.h"

namespace fovea::client {
namespace {

ExperimentState FromWire(fovea::v1::Experiment::State state) {
  switch (state) {
    case fovea::v1::Experiment::RUNNING:
      return ExperimentState::kRunning;
    case fovea::v1::Experiment::STOPPED:
      return ExperimentState::kStopped;
    case fovea::v1::Experiment::GUARD_RAIL:
      return ExperimentState::kGuardRail;
    case fovea::v1::Experiment::EXPIRED:
      return ExperimentState::kExpired;
    case fovea::v1::Experiment::MODEL_GONE:
      return ExperimentState::kModelGone;
    default:
      return ExperimentState::kUnknown;
  }
}

SequentialTest::Verdict FromWire(fovea::v1::SequentialTest::Verdict verdict) {
  switch (verdict) {
    case fovea::v1::SequentialTest::UNDECIDED:
      return SequentialTest::Verdict::kUndecided;
    case fovea::v1::SequentialTest::LOWER:
      return SequentialTest::Verdict::kLower;
    case fovea::v1::SequentialTest::HIGHER:
      return SequentialTest::Verdict::kHigher;
    case fovea::v1::SequentialTest::EQUIVALENT:
      return SequentialTest::Verdict::kEquivalent;
    default:
      return SequentialTest::Verdict::kUnknown;
  }
}

SequentialTest FromWire(const fovea::v1::SequentialTest& test) {
  return {test.estimate(), test.lower(), test.upper(), test.observations(),
          FromWire(test.verdict())};
}

ExperimentPlan FromWire(const fovea::v1::ExperimentPlan& message) {
  const fovea::v1::GuardRails& rails = message.guard_rails();
  ExperimentPlan plan{
      .name = message.name(),
      .model_name = message.model_name(),
      .guard_rails = {.max_latency_ratio = rails.max_latency_ratio(),
                      .max_disagreement = rails.max_disagreement(),
                      .max_error_excess = rails.max_error_excess(),
                      .max_time = absl::Seconds(rails.max_seconds()),
                      .max_shadow_share = rails.max_shadow_share()},
      .error_probability = message.error_probability(),
      .latency_margin = message.latency_margin(),
      .disagreement_margin = message.disagreement_margin(),
  };
  for (const auto& arm : message.arms()) {
    const fovea::v1::Variant& variant = arm.variant();
    plan.arms.push_back({.variant = {.model = {variant.model_name(), variant.model_version()},
                                     .attention = variant.attention()},
                         .weight = arm.weight(),
                         .shadow = arm.shadow()});
  }
  return plan;
}

ArmReport FromWire(const fovea::v1::ArmReport& message) {
  ArmReport arm{.name = message.name(),
                .model = {message.model_name(), message.model_version()},
                .attention = message.attention(),
                .weights_of_attention = message.weights_of_attention(),
                .requests = message.requests(),
                .failures = message.failures(),
                .shadow_requests = message.shadow_requests(),
                .shadow_skipped = message.shadow_skipped(),
                .mean_latency_ms = message.mean_latency_ms()};
  if (message.has_latency_ratio()) arm.latency_ratio = FromWire(message.latency_ratio());
  if (message.has_disagreement()) arm.disagreement = FromWire(message.disagreement());
  if (message.has_error_excess()) arm.error_excess = FromWire(message.error_excess());
  return arm;
}

}  // namespace

fovea::v1::ExperimentPlan ToWire(const ExperimentPlan& plan) {
  fovea::v1::ExperimentPlan message;
  message.set_name(plan.name);
  message.set_model_name(plan.model_name);
  for (const ExperimentArm& arm : plan.arms) {
    fovea::v1::ExperimentArm& to = *message.add_arms();
    to.mutable_variant()->set_model_name(arm.variant.model.name);
    to.mutable_variant()->set_model_version(arm.variant.model.version);
    to.mutable_variant()->set_attention(arm.variant.attention);
    to.set_weight(arm.weight);
    to.set_shadow(arm.shadow);
  }
  fovea::v1::GuardRails& rails = *message.mutable_guard_rails();
  rails.set_max_latency_ratio(plan.guard_rails.max_latency_ratio);
  rails.set_max_disagreement(plan.guard_rails.max_disagreement);
  rails.set_max_error_excess(plan.guard_rails.max_error_excess);
  if (plan.guard_rails.max_time > absl::ZeroDuration()) {
    // Not less than was asked for, and never 0, which would be the server's default.
    rails.set_max_seconds(static_cast<uint64_t>(
        absl::ToInt64Seconds(absl::Ceil(plan.guard_rails.max_time, absl::Seconds(1)))));
  }
  rails.set_max_shadow_share(plan.guard_rails.max_shadow_share);
  message.set_error_probability(plan.error_probability);
  message.set_latency_margin(plan.latency_margin);
  message.set_disagreement_margin(plan.disagreement_margin);
  return message;
}

absl::StatusOr<Experiment> FromWire(const fovea::v1::Experiment& message) {
  if (message.arms().empty() || message.arms_size() != message.plan().arms_size()) {
    return absl::InternalError(absl::StrCat("the server's experiment has ", message.arms_size(),
                                            " arms, its plan ", message.plan().arms_size()));
  }
  Experiment experiment{.plan = FromWire(message.plan()),
                        .state = FromWire(message.state()),
                        .reason = message.reason(),
                        .running = absl::Seconds(message.running_seconds()),
                        .measured = ProvenanceFromWire(message.measured())};
  for (const auto& arm : message.arms()) experiment.arms.push_back(FromWire(arm));
  return experiment;
}

}  // namespace fovea::client
