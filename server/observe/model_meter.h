// What one loaded model version has done: its series of every metric, and Triton's statistics of it.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
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
class ModelMeter {
 public:
  ModelMeter(MetricFamilies& families, const ModelView& model);
  ~ModelMeter();
  ModelMeter(const ModelMeter&) = delete;
  ModelMeter& operator=(const ModelMeter&) = delete;

  // Whether a meter made for `model` would have the same labels.
  bool IsOf(const ModelView& model) const { return labels_ == Labels(model); }

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
  static std::map<std::string, std::string> Labels(const ModelView& model);
  // A metric of ours in its family, for as long as we live.
  template <typename Metric>
  Metric& Own(prometheus::Family<Metric>& family, std::map<std::string, std::string> extra_labels);
  prometheus::Histogram& Own(prometheus::Family<prometheus::Histogram>& family,
                             std::map<std::string, std::string> extra_labels,
                             const prometheus::Histogram::BucketBoundaries& buckets);

  const std::map<std::string, std::string> labels_;
  std::vector<absl::AnyInvocable<void()>> removals_;  // of our series from their families

  std::array<prometheus::Counter*, 17> answered_{};  // by absl's code, which is gRPC's
  prometheus::Histogram* request_duration_ = nullptr;
  std::array<prometheus::Histogram*, kStageCount> stage_duration_{};
  prometheus::Histogram* batch_size_ = nullptr;
  prometheus::Histogram* batch_peak_memory_ = nullptr;
  prometheus::Counter* images_ = nullptr;
  prometheus::Gauge* queue_depth_ = nullptr;
  std::map<std::string, prometheus::Counter*, std::less<>> rejected_;
  std::map<std::string, prometheus::Counter*, std::less<>> closed_;

  mutable Mutex mutex_;
  ModelStatistics statistics_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
