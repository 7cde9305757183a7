#include "server/observe/experiment_meter.h"

namespace fovea {
namespace {

constexpr std::array<const char*, 4> kOutcomes = {"ok", "failed", "shadow", "shadow_skipped"};
constexpr std::array<const char*, 3> kBounds = {"estimate", "lower", "upper"};
constexpr std::array<const char*, 4> kReasons = {"stopped", "guard_rail", "expired", "model_gone"};

}  // namespace

ExperimentMeter::ExperimentMeter(MetricFamilies& families, const std::string& experiment,
                                 const std::string& model, const std::vector<std::string>& arms)
    : families_(families),
      series_(MetricLabels{{"experiment", experiment}}),
      running_(series_.Add(families.experiment_running, {{"model", model}})) {
  running_.Set(1);
  for (const std::string& name : arms) {
    Arm& arm = arms_.emplace_back(Arm{.name = name});
    for (size_t i = 0; i < kOutcomes.size(); ++i) {
      arm.requests[i] =
          &series_.Add(families.experiment_requests, {{"arm", name}, {"outcome", kOutcomes[i]}});
    }
  }
}

void ExperimentMeter::Set(prometheus::Family<prometheus::Gauge>& family, size_t arm,
                          const Interval& interval, Gauges& gauges) {
  if (!gauges) {
    gauges.emplace();
    for (size_t i = 0; i < kBounds.size(); ++i) {
      (*gauges)[i] = &series_.Add(family, {{"arm", arms_[arm].name}, {"bound", kBounds[i]}});
    }
  }
  (*gauges)[0]->Set(interval.estimate);
  (*gauges)[1]->Set(interval.lower);
  (*gauges)[2]->Set(interval.upper);
}

void ExperimentMeter::OnEnded(std::string_view reason) {
  running_.Set(0);
  families_.experiments_ended.Add({{"reason", std::string(reason)}}).Increment();
}

void ExperimentMeter::CountEnds(MetricFamilies& families) {
  for (const char* const reason : kReasons) families.experiments_ended.Add({{"reason", reason}});
}

}  // namespace fovea
