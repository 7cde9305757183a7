#include "server/observe/metrics.h"

#include <prometheus/text_serializer.h>

#include <iterator>
#include <optional>
#include <vector>

#include "base/status.h"
#include "server/observe/process_collector.h"

namespace fovea {

Metrics::Metrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      families_(std::make_unique<MetricFamilies>(*registry_)),
      process_(std::make_shared<ProcessCollector>()),
      other_(MetricLabels{{"model", "other"}}),
      unmatched_(*families_, other_) {}

Metrics::~Metrics() = default;

std::shared_ptr<ModelMeter> Metrics::Meter(const ModelView& model) {
  const MetricLabels labels = ModelMeter::LabelsOf(model);
  // Released outside the lock: the last handle takes it.
  std::shared_ptr<ModelMeter> meter, before;
  {
    MutexLock lock(mutex_);
    auto known = meters_.find(labels);
    while (known != meters_.end() && (meter = known->second.lock()) == nullptr) {
      destroyed_.Wait(mutex_);
      known = meters_.find(labels);
    }
    std::weak_ptr<ModelMeter>& newest = newest_[{model.name, model.version}];
    if (meter == nullptr) {
      before = newest.lock();
      auto statistics =
          before != nullptr ? before->statistics() : std::make_shared<StatisticsRecord>(model);
      meter = {new ModelMeter(*families_, model, std::move(statistics)),
               [this](ModelMeter* done) { Destroy(done); }};
      meters_[labels] = meter;
    }
    newest = meter;
  }
  meter->Describe(model);
  return meter;
}

void Metrics::OnKeyUsed(std::string_view key, absl::StatusCode code) {
  families_->key_requests.Add({{"key", std::string(key)}, {"code", absl::StatusCodeToString(code)}})
      .Increment();
}

void Metrics::OnCredentialReload(std::string_view what, bool taken) {
  families_->credential_reloads
      .Add({{"what", std::string(what)}, {"result", taken ? "taken" : "refused"}})
      .Increment();
}

void Metrics::Destroy(ModelMeter* meter) {
  const MetricLabels labels = meter->labels();
  delete meter;
  MutexLock lock(mutex_);
  meters_.erase(labels);
  std::erase_if(newest_, [](const auto& entry) { return entry.second.expired(); });
  destroyed_.NotifyAll();
}

absl::StatusOr<std::vector<ModelStatistics>> Metrics::Statistics(std::string_view name,
                                                                 std::string_view version) const {
  std::vector<std::shared_ptr<ModelMeter>> meters;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, known] : newest_) {
      if (!name.empty() && key.first != name) continue;
      if (!version.empty() && key.second != version) continue;
      if (auto meter = known.lock()) meters.push_back(std::move(meter));
    }
  }
  if (meters.empty() && !name.empty()) {
    return NotFound("model.not_found", "no such model or version is loaded");
  }
  std::vector<ModelStatistics> all;
  for (const auto& meter : meters) all.push_back(meter->statistics()->Read());
  return all;
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  std::vector<prometheus::MetricFamily> process = process_->Collect();
  std::move(process.begin(), process.end(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace fovea
