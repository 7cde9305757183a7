// What one loaded model version has done: its series of every metric, and Triton's statistics of it.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "server/core/clock.h"
#include "server/core/model_catalog.h"
#include "server/core/model_statistics.h"
#include "server/core/mutex.h"
#include "server/core/stages.h"
#include "server/observe/metric_families.h"

namespace fovea {

// Made when a version is loaded; every series is resolved then, so that counting a request looks nothing up.
// Thread-safe. Its series go with it.
class ModelRecord {
 public:
  ModelRecord(MetricFamilies& families, const ModelView& model);
  ~ModelRecord();
  ModelRecord(const ModelRecord&) = delete;
  ModelRecord& operator=(const ModelRecord&) = delete;

  // An answer was handed to the wire.
  void OnAnswered(absl::StatusCode code, const StageTimes& stages);
  // A batch was run: what gathering, the model and handing out took.
  void OnBatch(int images, Nanos gather, Nanos compute, Nanos scatter, int64_t peak_bytes);
  void OnQueueDepth(int places);
  // Labels as the scheduler names them.
  void OnRejected(std::string_view reason);
  void OnBatchClosed(std::string_view reason);

  ModelStatistics statistics() const;

 private:
  template <typename Metric>
  struct Series {
    prometheus::Family<Metric>* family;
    Metric* metric;
  };
  template <typename Metric, typename... Arguments>
  Metric& Add(prometheus::Family<Metric>& family, std::map<std::string, std::string> extra,
              Arguments&&... arguments);
  prometheus::Counter& ByReason(std::map<std::string, prometheus::Counter*, std::less<>>& known,
                                prometheus::Family<prometheus::Counter>& family, std::string_view reason);

  MetricFamilies& families_;
  const std::map<std::string, std::string> labels_;
  const std::map<std::string, int64_t> memory_bytes_;

  std::vector<Series<prometheus::Counter>> counters_;
  std::vector<Series<prometheus::Gauge>> gauges_;
  std::vector<Series<prometheus::Histogram>> histograms_;
  std::array<prometheus::Counter*, 17> answered_{};  // by gRPC's code, which absl's equals
  prometheus::Histogram* request_duration_;
  std::array<prometheus::Histogram*, kStageCount> stage_duration_{};
  prometheus::Histogram* batch_size_;
  prometheus::Histogram* batch_peak_memory_;
  prometheus::Counter* images_;
  prometheus::Gauge* queue_depth_;
  std::map<std::string, prometheus::Counter*, std::less<>> rejected_;
  std::map<std::string, prometheus::Counter*, std::less<>> closed_;

  mutable Mutex mutex_;
  ModelStatistics statistics_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
