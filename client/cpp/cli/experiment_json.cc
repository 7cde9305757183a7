#include "client/cpp/cli/experiment_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "client/cpp/cli/measured_json.h"

namespace fovea::client {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const SequentialTest& test) {
  const char* verdict = "VERDICT_UNSPECIFIED";
  switch (test.verdict) {
    case SequentialTest::Verdict::kUndecided:
      verdict = "UNDECIDED";
      break;
    case SequentialTest::Verdict::kLower:
      verdict = "LOWER";
      break;
    case SequentialTest::Verdict::kHigher:
      verdict = "HIGHER";
      break;
    case SequentialTest::Verdict::kEquivalent:
      verdict = "EQUIVALENT";
      break;
    case SequentialTest::Verdict::kUnknown:
      break;
  }
  return {{"estimate", NumberJson(test.estimate)},
          {"lower", NumberJson(test.lower)},
          {"upper", NumberJson(test.upper)},
          {"observations", test.observations},
          {"verdict", verdict}};
}

const char* Token(ExperimentState state) {
  switch (state) {
    case ExperimentState::kRunning:
      return "RUNNING";
    case ExperimentState::kStopped:
      return "STOPPED";
    case ExperimentState::kGuardRail:
      return "GUARD_RAIL";
    case ExperimentState::kExpired:
      return "EXPIRED";
    case ExperimentState::kModelGone:
      return "MODEL_GONE";
    case ExperimentState::kUnknown:
      break;
  }
  return "STATE_UNSPECIFIED";
}

Json ToJson(const ExperimentPlan& plan) {
  Json arms = Json::array();
  for (const ExperimentArm& arm : plan.arms) {
    arms.push_back({{"variant",
                     {{"model_name", arm.variant.model.name},
                      {"model_version", arm.variant.model.version},
                      {"attention", arm.variant.attention}}},
                    {"weight", arm.weight},
                    {"shadow", arm.shadow}});
  }
  const GuardRails& rails = plan.guard_rails;
  return {{"name", plan.name},
          {"model_name", plan.model_name},
          {"arms", std::move(arms)},
          {"guard_rails",
           {{"max_latency_ratio", rails.max_latency_ratio},
            {"max_disagreement", rails.max_disagreement},
            {"max_error_excess", rails.max_error_excess},
            {"max_seconds", absl::ToInt64Seconds(rails.max_time)},
            {"max_shadow_share", rails.max_shadow_share}}},
          {"error_probability", plan.error_probability},
          {"latency_margin", plan.latency_margin},
          {"disagreement_margin", plan.disagreement_margin}};
}

Json ToJson(const Experiment& experiment) {
  Json arms = Json::array();
  for (const ArmReport& arm : experiment.arms) {
    Json row = {{"name", arm.name},
                {"model_name", arm.model.name},
                {"model_version", arm.model.version},
                {"attention", arm.attention}};
    if (!arm.weights_of_attention.empty()) row["weights_of_attention"] = arm.weights_of_attention;
    row.update({{"requests", arm.requests},
                {"failures", arm.failures},
                {"shadow_requests", arm.shadow_requests},
                {"shadow_skipped", arm.shadow_skipped},
                {"mean_latency_ms", arm.mean_latency_ms}});
    const auto add = [&](const char* name, const std::optional<SequentialTest>& test) {
      if (test) row[name] = ToJson(*test);
    };
    add("latency_ratio", arm.latency_ratio);
    add("disagreement", arm.disagreement);
    add("error_excess", arm.error_excess);
    arms.push_back(std::move(row));
  }
  Json json = {{"plan", ToJson(experiment.plan)},
               {"state", Token(experiment.state)},
               {"reason", experiment.reason},
               {"running_seconds", absl::ToDoubleSeconds(experiment.running)},
               {"arms", std::move(arms)}};
  AddProvenance(experiment.measured, json);
  return json;
}

std::string Text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string ExperimentJson(const Experiment& experiment) { return Text(ToJson(experiment), 2); }

std::string ExperimentJsonLine(const Experiment& experiment) {
  return Text(ToJson(experiment), -1);
}

std::string ExperimentsJson(const std::vector<Experiment>& experiments) {
  Json all = Json::array();
  for (const Experiment& experiment : experiments) all.push_back(ToJson(experiment));
  return Text({{"experiments", std::move(all)}}, 2);
}

}  // namespace fovea::client
