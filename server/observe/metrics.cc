#include "server/observe/metrics.h"

#include "server/core/status.h"
#include "server/observe/process_collector.h"

namespace fovea {

Metrics::Metrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      families_(std::make_unique<MetricFamilies>(*registry_)),
      process_(std::make_shared<ProcessCollector>()) {}

Metrics::~Metrics() = default;

std::shared_ptr<ModelMeter> Metrics::Meter(const ModelView& model) {
  MutexLock lock(mutex_);
  std::weak_ptr<ModelMeter>& known = meters_[{model.name, model.version}];
  std::shared_ptr<ModelMeter> meter = known.lock();
  if (meter == nullptr || !meter->IsOf(model)) {
    meter = std::make_shared<ModelMeter>(*families_, model);
    known = meter;
  }
  return meter;
}

std::shared_ptr<ModelMeter> Metrics::Find(std::string_view name, std::string_view version) const {
  MutexLock lock(mutex_);
  const auto found = meters_.find(Key(name, version));
  return found == meters_.end() ? nullptr : found->second.lock();
}

absl::StatusOr<std::vector<ModelStatistics>> Metrics::Statistics(std::string_view name,
                                                                 std::string_view version) const {
  std::vector<ModelStatistics> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, known] : meters_) {
      if ((!name.empty() && key.first != name) || (!version.empty() && key.second != version)) continue;
      if (const auto meter = known.lock()) all.push_back(meter->statistics());
    }
  }
  if (all.empty() && !name.empty()) {
    return NotFound("model.unknown", "no such model or version is loaded");
  }
  return all;
}

absl::StatusOr<int> Metrics::Serve(const std::string& host, int port) {
  FOVEA_ASSIGN_OR_RETURN(endpoint_, MetricsEndpoint::Create(host, port, {registry_, process_}));
  return endpoint_->port();
}

}  // namespace fovea
