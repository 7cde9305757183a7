#include "server/observe/experiment_meter.h"

namespace fovea {
namespace {

const char* NameOf(ArmOutcome outcome) {
  switch (outcome) {
    case ArmOutcome::kOk:
      return "ok";
    case ArmOutcome::kFailed:
      return "failed";
    case ArmOutcome::kShadow:
      return "shadow";
    case ArmOutcome::kShadowSkipped:
      break;
  }
  return "shadow_skipped";
}
constexpr std::array<const char*, 3> kBounds = {"estimate", "lower", "upper"};
constexpr std::array kEnds = {ExperimentState::kStopped, ExperimentState::kGuardRail,
                              ExperimentState::kExpired, ExperimentState::kModelGone};

const char* ReasonOf(ExperimentState why) {
  switch (why) {
    case ExperimentState::kGuardRail:
      return "guard_rail";
    case ExperimentState::kExpired:
      return "expired";
    case ExperimentState::kModelGone:
      return "model_gone";
    case ExperimentState::kRunning:
    case ExperimentState::kStopped:
      break;
  }
  return "stopped";
}

}  // namespace

ExperimentMeter::ExperimentMeter(MetricFamilies& families, const std::string& experiment,
                                 const std::string& model, const std::vector<std::string>& arms)
    : families_(families),
      series_(MetricLabels{{"experiment", experiment}}),
      running_(series_.Add(families.experiment_running, {{"model", model}})) {
  running_.Set(1);
  for (const std::string& name : arms) {
    Arm& arm = arms_.emplace_back(Arm{.name = name});
    for (size_t i = 0; i < arm.requests.size(); ++i) {
      const char* const outcome = NameOf(static_cast<ArmOutcome>(i));
      arm.requests[i] =
          &series_.Add(families.experiment_requests, {{"arm", name}, {"outcome", outcome}});
    }
  }
}

void ExperimentMeter::Set(prometheus::Family<prometheus::Gauge>& family, size_t arm,
                          const SequentialTest& test, Gauges& gauges) {
  if (!gauges) {
    gauges.emplace();
    for (size_t i = 0; i < kBounds.size(); ++i) {
      (*gauges)[i] = &series_.Add(family, {{"arm", arms_[arm].name}, {"bound", kBounds[i]}});
    }
  }
  (*gauges)[0]->Set(test.estimate);
  (*gauges)[1]->Set(test.lower);
  (*gauges)[2]->Set(test.upper);
}

void ExperimentMeter::OnEnded(ExperimentState why) {
  running_.Set(0);
  families_.experiments_ended.Add({{"reason", ReasonOf(why)}}).Increment();
}

void ExperimentMeter::CountEnds(MetricFamilies& families) {
  for (const ExperimentState why : kEnds)
    families.experiments_ended.Add({{"reason", ReasonOf(why)}});
}

}  // namespace fovea
