#include "server/observe/model_meter.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "server/observe/resolution.h"

namespace fovea {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// Every bound is a series of every model. People read quantiles of times: one is off by at most a
// bucket's width, and attentions differ by a few percent. Of memory the means, from sum and count,
// are what differs.
const double kFineFactor = std::exp2(0.25);

const Buckets& RequestBuckets() {
  static const Buckets buckets = GeometricBuckets(0.0005, 8, kFineFactor);
  return buckets;
}
const Buckets& StageBuckets() {
  static const Buckets buckets = GeometricBuckets(0.0001, 8, kFineFactor);
  return buckets;
}
const Buckets& BatchBuckets() {
  static const Buckets buckets = GeometricBuckets(1, 128, 2);
  return buckets;
}

const Buckets& ThreadBuckets() {
  static const Buckets buckets = GeometricBuckets(1, 256, 2);
  return buckets;
}

const Buckets& MemoryBuckets() {
  static const Buckets buckets = GeometricBuckets(1 << 20, 16.0 * (int64_t{1} << 30), 2);
  return buckets;
}

const Buckets& PaddingBuckets() {
  static const Buckets buckets = {0.02, 0.05, 0.1, 0.2, 0.5};
  return buckets;
}

constexpr std::string_view kCpu = "CPU";  // LaneDevice's name

constexpr std::array<std::string_view, 3> kGpuSteps = {"h2d", "kernels", "d2h"};

constexpr std::string_view kRejections[] = {"full", "deadline", "cancelled", "draining"};
constexpr std::string_view kCloseReasons[] = {"full",  "preferred", "deadline",
                                              "delay", "idle",      "drain"};

// Stage and outcome of work that nobody waits for any more.
constexpr std::pair<std::string_view, std::string_view> kCancelledWork[] = {
    {"imaging", "saved"}, {"imaging", "wasted"}, {"compute", "saved"}, {"compute", "wasted"}};

double Seconds(Nanos nanos) { return static_cast<double>(nanos) * 1e-9; }

void Count(const std::map<std::string, prometheus::Counter*, std::less<>>& counters,
           std::string_view reason) {
  const auto found = counters.find(reason);
  FOVEA_CHECK(found != counters.end());
  found->second->Increment();
}

}  // namespace

MetricLabels ModelMeter::LabelsOf(const ModelView& model) {
  return {{"model", model.name},
          {"version", model.version},
          {"attention", model.attention},
          {"task", std::string(VisionTaskName(model.task))}};
}

ModelMeter::ModelMeter(MetricFamilies& families, const ModelView& model,
                       std::shared_ptr<StatisticsRecord> statistics)
    : families_(families),
      statistics_(std::move(statistics)),
      series_(LabelsOf(model)),
      answered_(families, series_),
      batch_size_(series_.Add(families.batch_size, {}, BatchBuckets())),
      batch_threads_(series_.Add(families.batch_threads, {}, ThreadBuckets())),
      imaging_seconds_(series_.Add(families.cpu_seconds, {{"stage", "imaging"}})),
      non_finite_(series_.Add(families.non_finite, {})),
      queue_depth_(series_.Add(families.queue_depth, {})),
      delayed_(series_.Add(families.delayed, {})) {
  for (const Protocol protocol : kProtocols) {
    request_duration_[static_cast<size_t>(protocol)] =
        &series_.Add(families.request_duration, {{"protocol", std::string(ProtocolName(protocol))}},
                     RequestBuckets());
  }
  for (int stage = 0; stage < kStageCount; ++stage) {
    stage_duration_[stage] = &series_.Add(
        families.stage_duration, {{"stage", std::string(kStageNames[stage])}}, StageBuckets());
  }
  if (model.fits_pictures) {
    batch_padding_ = &series_.Add(families.batch_padding, {}, PaddingBuckets());
  }
  rejected_ = AddRejections(families.rejected, {});
  for (const std::string_view reason : kCloseReasons) {
    closed_[std::string(reason)] =
        &series_.Add(families.batches_closed, {{"reason", std::string(reason)}});
  }
  for (const auto& [stage, outcome] : kCancelledWork) {
    cancelled_work_[{stage, outcome}] =
        &series_.Add(families.cancelled_work,
                     {{"stage", std::string(stage)}, {"outcome", std::string(outcome)}});
  }
}

void ModelMeter::OnCancelledWork(std::string_view stage, std::string_view outcome, Nanos time) {
  const auto found = cancelled_work_.find({stage, outcome});
  FOVEA_CHECK(found != cancelled_work_.end());
  found->second->Increment(Seconds(time));
}

ModelMeter::CountersByReason ModelMeter::AddRejections(
    prometheus::Family<prometheus::Counter>& family, const MetricLabels& further) {
  CountersByReason counters;
  for (const std::string_view reason : kRejections) {
    MetricLabels labels = further;
    labels["reason"] = std::string(reason);
    counters[std::string(reason)] = &series_.Add(family, labels);
  }
  return counters;
}

void ModelMeter::Describe(const ModelView& model) {
  statistics_->Describe(model);
  MutexLock lock(mutex_);
  while (model.priority_levels > 1 && levels_.size() < static_cast<size_t>(model.priority_levels)) {
    const MetricLabels level = {{"priority", std::to_string(levels_.size() + 1)}};
    levels_.push_back({.depth = series_.Add(families_.priority_depth, level),
                       .run = series_.Add(families_.priority_run, level),
                       .rejected = AddRejections(families_.priority_rejected, level)});
  }
  for (const ImageSize& size : model.sizes) {
    const std::string_view label = ResolutionLabel(size);
    if (resolutions_.contains(label)) continue;
    const MetricLabels further = {{"resolution", std::string(label)}};
    resolutions_.emplace(
        label,
        AtResolution{
            .images = series_.Add(families_.images, further),
            .duration = series_.Add(families_.batch_duration, further, RequestBuckets()),
            .peak_memory = series_.Add(families_.batch_peak_memory, further, MemoryBuckets())});
  }
  if (!device_seconds_.contains(model.device)) {
    device_seconds_[model.device] =
        model.device == kCpu ? &series_.Add(families_.cpu_seconds, {{"stage", "compute"}})
                             : &series_.Add(families_.gpu_seconds, {{"device", model.device}});
  }
  if (model.device != kCpu && gpu_steps_[0] == nullptr) {
    for (size_t step = 0; step < gpu_steps_.size(); ++step) {
      gpu_steps_[step] =
          &series_.Add(families_.gpu_steps, {{"step", std::string(kGpuSteps[step])}});
    }
  }
  facts_.reset();  // first: the new ones may be the same series
  facts_ = std::make_unique<OwnedSeries>(series_.labels());
  for (const auto& [kind, bytes] : model.memory_bytes) {
    facts_->Add(families_.model_memory, {{"kind", kind}, {"device", model.device}})
        .Set(static_cast<double>(bytes));
  }
  facts_->Add(families_.model_info, {{"backbone", model.backbone}, {"precision", model.precision}})
      .Set(1);
}

void ModelMeter::OnAnswered(Protocol protocol, absl::StatusCode code, const StageTimes& stages) {
  answered_.Increment(protocol, code);
  request_duration_[static_cast<size_t>(protocol)]->Observe(Seconds(stages.total()));
  for (int stage = 0; stage < kStageCount; ++stage) {
    stage_duration_[stage]->Observe(Seconds(stages[static_cast<Stage>(stage)]));
  }
  statistics_->OnAnswered(code, stages);
}

void ModelMeter::OnBatch(const BatchRun& run) {
  batch_size_.Observe(run.images);
  batch_threads_.Observe(run.threads);
  if (batch_padding_ != nullptr) batch_padding_->Observe(run.padding);
  {
    MutexLock lock(mutex_);
    const auto found = resolutions_.find(ResolutionLabel(run.size));
    FOVEA_CHECK(found != resolutions_.end());
    const AtResolution& at = found->second;
    at.images.Increment(run.images);
    at.duration.Observe(Seconds(run.gather + run.compute));
    at.peak_memory.Observe(static_cast<double>(run.peak_bytes));
    if (run.device_times) {
      FOVEA_CHECK(gpu_steps_[0] != nullptr);
      gpu_steps_[0]->Increment(Seconds(run.device_times->h2d));
      gpu_steps_[1]->Increment(Seconds(run.device_times->kernels));
      gpu_steps_[2]->Increment(Seconds(run.device_times->d2h));
    }
  }
  statistics_->OnBatch(run.images, run.gather, run.compute, run.scatter);
}

void ModelMeter::OnPass(std::string_view device, Nanos time, int threads) {
  MutexLock lock(mutex_);
  const auto found = device_seconds_.find(device);
  FOVEA_CHECK(found != device_seconds_.end());
  found->second->Increment(Seconds(time) * (device == kCpu ? threads : 1));
}

void ModelMeter::OnImagingTime(Nanos time) { imaging_seconds_.Increment(Seconds(time)); }

void ModelMeter::OnQueueDepth(int places) { queue_depth_.Set(places); }

void ModelMeter::OnPriorityDepth(int priority, int places) {
  MutexLock lock(mutex_);
  levels_[priority].depth.Set(places);
}

void ModelMeter::OnPriorityRun(int priority) {
  MutexLock lock(mutex_);
  levels_[priority].run.Increment();
}

void ModelMeter::OnPriorityRejected(int priority, std::string_view reason) {
  MutexLock lock(mutex_);
  Count(levels_[priority].rejected, reason);
}

void ModelMeter::OnRejected(std::string_view reason) { Count(rejected_, reason); }

void ModelMeter::OnBatchClosed(std::string_view reason) { Count(closed_, reason); }

}  // namespace fovea
