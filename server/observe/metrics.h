// Everything that is counted, and the HTTP endpoint where Prometheus reads it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "server/core/model_statistics.h"
#include "server/core/mutex.h"
#include "server/observe/metric_families.h"
#include "server/observe/metrics_endpoint.h"
#include "server/observe/model_meter.h"

namespace fovea {

// Thread-safe. Outlives the meters that it gave out.
class Metrics final : public StatisticsSource {
 public:
  Metrics();
  ~Metrics() override;

  // The meter of a version that is about to serve. A reload under the same labels goes on with the meter of the version
  // that it replaces, so that its counts never go back.
  std::shared_ptr<ModelMeter> Meter(const ModelView& model);
  // The meter of a loaded version; null where there is none. Cheap enough for every request.
  std::shared_ptr<ModelMeter> Find(std::string_view name, std::string_view version) const;

  absl::StatusOr<std::vector<ModelStatistics>> Statistics(std::string_view name,
                                                          std::string_view version) const override;

  MetricFamilies& families() { return *families_; }

  // Serves /metrics over HTTP on host:port; port 0 takes a free one. Returns the port.
  // UNAVAILABLE (metrics.bind): the address cannot be listened on.
  absl::StatusOr<int> Serve(const std::string& host, int port);

 private:
  using Key = std::pair<std::string, std::string>;  // name, version

  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<MetricFamilies> families_;
  std::shared_ptr<prometheus::Collectable> process_;
  std::unique_ptr<MetricsEndpoint> endpoint_;
  mutable Mutex mutex_;
  std::map<Key, std::weak_ptr<ModelMeter>, std::less<>> meters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
