#include "client/cpp/cli/experiment_json.h"

#include <nlohmann/json.hpp>

#include "absl/time/time.h"

namespace fovea::client {
namespace {

using Json = nlohmann::ordered_json;

// What is absent in the message is null. JSON has no infinity: null, too.
Json ToJson(const std::optional<SequentialTest>& test) {
  if (!test) return nullptr;
  const char* verdict = "VERDICT_UNSPECIFIED";
  switch (test->verdict) {
    case SequentialTest::Verdict::kUndecided:
      verdict = "UNDECIDED";
      break;
    case SequentialTest::Verdict::kLower:
      verdict = "LOWER";
      break;
    case SequentialTest::Verdict::kHigher:
      verdict = "HIGHER";
      break;
    case SequentialTest::Verdict::kAsGoodAsSame:
      verdict = "AS_GOOD_AS_SAME";
      break;
    case SequentialTest::Verdict::kNone:
      break;
  }
  return {{"estimate", test->estimate},
          {"lower", test->lower},
          {"upper", test->upper},
          {"observations", test->observations},
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
    arms.push_back({{"model_name", arm.model.name},
                    {"model_version", arm.model.version},
                    {"attention", arm.attention},
                    {"weights_of_attention", nullptr},
                    {"requests", arm.requests},
                    {"failures", arm.failures},
                    {"shadow_requests", arm.shadow_requests},
                    {"shadow_skipped", arm.shadow_skipped},
                    {"mean_latency_ms", arm.mean_latency_ms},
                    {"latency_ratio", ToJson(arm.latency_ratio)},
                    {"disagreement", ToJson(arm.disagreement)},
                    {"error_excess", ToJson(arm.error_excess)}});
    if (!arm.weights_of_attention.empty()) {
      arms.back()["weights_of_attention"] = arm.weights_of_attention;
    }
  }
  return {{"plan", ToJson(experiment.plan)},
          {"state", Token(experiment.state)},
          {"reason", experiment.reason},
          {"running_seconds", absl::ToDoubleSeconds(experiment.running)},
          {"arms", std::move(arms)}};
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
