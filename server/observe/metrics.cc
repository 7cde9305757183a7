#include "server/observe/metrics.h"

#include <prometheus/exposer.h>

#include <exception>

#include "absl/strings/str_cat.h"
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
  const std::string address = absl::StrCat(host.find(':') == std::string::npos ? host : absl::StrCat("[", host, "]"),
                                           ":", port);
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(address, /*num_threads=*/1);
  } catch (const std::exception&) {
    return Unavailable("metrics.bind", absl::StrCat("cannot listen on ", address, " for metrics"));
  }
  exposer_->RegisterCollectable(registry_);
  exposer_->RegisterCollectable(process_);
  return exposer_->GetListeningPorts().front();
}

}  // namespace fovea
