// What one loaded model version has done: its series of every metric, and Triton's statistics of
// it.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/core/clock.h"
#include "server/core/image_size.h"
#include "server/core/model_catalog.h"
#include "server/core/mutex.h"
#include "server/core/stages.h"
#include "server/observe/metric_families.h"
#include "server/observe/series.h"
#include "server/observe/statistics_record.h"

namespace fovea {

// Made when a version is loaded; every series is resolved then, so that counting a request looks
// nothing up. Thread-safe. Its series go with it.
class ModelMeter {
 public:
  // No other meter with LabelsOf(model) may live. To be followed by Describe(model).
  ModelMeter(MetricFamilies& families, const ModelView& model,
             std::shared_ptr<StatisticsRecord> statistics);
  ModelMeter(const ModelMeter&) = delete;
  ModelMeter& operator=(const ModelMeter&) = delete;

  static MetricLabels LabelsOf(const ModelView& model);

  const MetricLabels& labels() const { return series_.labels(); }

  // A version with our labels was loaded: its memory and its facts are told from now on.
  void Describe(const ModelView& model);

  // An answer was handed to the wire.
  void OnAnswered(Protocol protocol, absl::StatusCode code, const StageTimes& stages);
  // A batch was run: what gathering, the model and handing out took.
  struct BatchRun {
    int images = 0;
    int threads = 0;
    Nanos gather = 0, compute = 0, scatter = 0;
    int64_t peak_bytes = 0;
    std::optional<DeviceTimes> device_times;  // of a version that runs on a GPU
    double padding = 0;
    ImageSize size;  // of its images: one of the version's
  };
  void OnBatch(const BatchRun& run);
  // So many threads of `device`, a version's with our labels, were taken for so long by what a lane
  // did for the model.
  void OnPass(std::string_view device, Nanos time, int threads);
  // Imaging's threads were taken for so long, all together, by a request that has ended.
  void OnImagingTime(Nanos time);
  // So many requests failed because their output was not finite.
  void OnNonFinite(int requests) { non_finite_.Increment(requests); }
  void OnQueueDepth(int places);
  int queue_depth() const { return static_cast<int>(queue_depth_.Value()); }
  // Of models with several priority levels. As the queue has them: 0 is the highest.
  void OnPriorityDepth(int priority, int places);
  void OnPriorityRun(int priority);
  void OnPriorityRejected(int priority, std::string_view reason);
  void OnDelayed(int requests) { delayed_.Increment(requests); }
  // Labels as the scheduler names them.
  void OnRejected(std::string_view reason);
  void OnBatchClosed(std::string_view reason);
  // Of kCancelledWork in model_meter.cc.
  void OnCancelledWork(std::string_view stage, std::string_view outcome, Nanos time);

  const std::shared_ptr<StatisticsRecord>& statistics() const { return statistics_; }

 private:
  using CountersByReason = std::map<std::string, prometheus::Counter*, std::less<>>;

  MetricFamilies& families_;
  const std::shared_ptr<StatisticsRecord> statistics_;
  OwnedSeries series_;
  RequestCounters answered_;
  std::array<prometheus::Histogram*, kProtocols.size()> request_duration_{};
  std::array<prometheus::Histogram*, kStageCount> stage_duration_{};
  prometheus::Histogram& batch_size_;
  prometheus::Histogram& batch_threads_;
  prometheus::Histogram* batch_padding_ = nullptr;  // of models that fit pictures
  prometheus::Counter& imaging_seconds_;
  prometheus::Counter& non_finite_;
  prometheus::Gauge& queue_depth_;
  prometheus::Counter& delayed_;
  CountersByReason rejected_, closed_;
  std::map<std::pair<std::string_view, std::string_view>, prometheus::Counter*> cancelled_work_;

  struct Level {
    prometheus::Gauge& depth;
    prometheus::Counter& run;
    CountersByReason rejected;
  };
  CountersByReason AddRejections(prometheus::Family<prometheus::Counter>& family,
                                 const MetricLabels& further);

  // What is told apart by the size of the images.
  struct AtResolution {
    prometheus::Counter& images;
    prometheus::Histogram& duration;
    prometheus::Histogram& peak_memory;
  };

  Mutex mutex_;
  // By label: of every size that any version with our labels has had.
  std::map<std::string_view, AtResolution> resolutions_ ABSL_GUARDED_BY(mutex_);
  // By the name of a device that any such version has run on.
  std::map<std::string, prometheus::Counter*, std::less<>> device_seconds_ ABSL_GUARDED_BY(mutex_);
  // h2d, kernels and d2h, of models that run on a GPU.
  std::array<prometheus::Counter*, 3> gpu_steps_ ABSL_GUARDED_BY(mutex_){};
  // The highest first, as many as any version with our labels has had: a reload may add some.
  std::vector<Level> levels_ ABSL_GUARDED_BY(mutex_);
  // Of the version that was loaded last: a reload may change them under the same labels.
  std::unique_ptr<OwnedSeries> facts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
