#include "server/observe/model_meter.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "server/core/check.h"

namespace fovea {
namespace {

// Fine enough that a quantile is off by less than the differences between attentions: neighbouring bounds differ by 19%.
const double kFine = std::exp2(0.25);

const prometheus::Histogram::BucketBoundaries& RequestBuckets() {
  static const auto buckets = GeometricBuckets(0.0005, 8, kFine);
  return buckets;
}
const prometheus::Histogram::BucketBoundaries& StageBuckets() {
  static const auto buckets = GeometricBuckets(0.00001, 8, std::exp2(0.5));
  return buckets;
}
const prometheus::Histogram::BucketBoundaries& BatchBuckets() {
  static const auto buckets = GeometricBuckets(1, 128, 2);
  return buckets;
}
const prometheus::Histogram::BucketBoundaries& MemoryBuckets() {
  static const auto buckets = GeometricBuckets(65'536, 16.0 * (int64_t{1} << 30), std::exp2(0.5));
  return buckets;
}

// The names of gRPC's codes, which absl's equal.
constexpr std::array<std::string_view, 17> kCodes = {
    "OK",           "CANCELLED",         "UNKNOWN",          "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",     "OUT_OF_RANGE",
    "UNIMPLEMENTED", "INTERNAL",         "UNAVAILABLE",      "DATA_LOSS",          "UNAUTHENTICATED"};

constexpr std::string_view kRejections[] = {"full", "deadline", "cancelled", "draining"};
constexpr std::string_view kCloseReasons[] = {"full", "preferred", "deadline", "delay", "idle", "drain"};

double Seconds(Nanos nanos) { return static_cast<double>(nanos) * 1e-9; }

uint64_t WallClockMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void Add(DurationSum& sum, Nanos duration, uint64_t count = 1) {
  sum.count += count;
  sum.nanoseconds += static_cast<uint64_t>(duration) * count;
}

}  // namespace

template <typename Metric>
Metric& ModelMeter::Own(prometheus::Family<Metric>& family, std::map<std::string, std::string> extra_labels) {
  extra_labels.insert(labels_.begin(), labels_.end());
  Metric& metric = family.Add(extra_labels);
  removals_.push_back([&family, &metric] { family.Remove(&metric); });
  return metric;
}

prometheus::Histogram& ModelMeter::Own(prometheus::Family<prometheus::Histogram>& family,
                                       std::map<std::string, std::string> extra_labels,
                                       const prometheus::Histogram::BucketBoundaries& buckets) {
  extra_labels.insert(labels_.begin(), labels_.end());
  prometheus::Histogram& metric = family.Add(extra_labels, buckets);
  removals_.push_back([&family, &metric] { family.Remove(&metric); });
  return metric;
}

std::map<std::string, std::string> ModelMeter::Labels(const ModelView& model) {
  return {{"model", model.name},
          {"version", model.version},
          {"attention", model.attention},
          {"task", model.task}};
}

ModelMeter::ModelMeter(MetricFamilies& families, const ModelView& model) : labels_(Labels(model)) {
  for (size_t code = 0; code < kCodes.size(); ++code) {
    answered_[code] = &Own(families.requests, {{"protocol", "grpc"}, {"code", std::string(kCodes[code])}});
  }
  request_duration_ = &Own(families.request_duration, {{"protocol", "grpc"}}, RequestBuckets());
  for (int stage = 0; stage < kStageCount; ++stage) {
    stage_duration_[stage] =
        &Own(families.stage_duration, {{"stage", std::string(kStageNames[stage])}}, StageBuckets());
  }
  batch_size_ = &Own(families.batch_size, {}, BatchBuckets());
  batch_peak_memory_ = &Own(families.batch_peak_memory, {}, MemoryBuckets());
  images_ = &Own(families.images, {});
  queue_depth_ = &Own(families.queue_depth, {});
  for (std::string_view reason : kRejections) {
    rejected_[std::string(reason)] = &Own(families.rejected, {{"reason", std::string(reason)}});
  }
  for (std::string_view reason : kCloseReasons) {
    closed_[std::string(reason)] = &Own(families.batches_closed, {{"reason", std::string(reason)}});
  }
  for (const auto& [kind, bytes] : model.memory_bytes) {
    Own(families.model_memory, {{"kind", kind}}).Set(static_cast<double>(bytes));
  }
  Own(families.model_info, {{"backbone", model.backbone}, {"precision", model.precision}}).Set(1);
  statistics_.name = model.name;
  statistics_.version = model.version;
  statistics_.memory_bytes = model.memory_bytes;
}

ModelMeter::~ModelMeter() {
  for (auto& remove : removals_) remove();
}

void ModelMeter::OnAnswered(absl::StatusCode code, const StageTimes& stages) {
  const auto index = static_cast<size_t>(code);
  FOVEA_CHECK(index < answered_.size());
  answered_[index]->Increment();
  request_duration_->Observe(Seconds(stages.total()));
  for (int stage = 0; stage < kStageCount; ++stage) {
    stage_duration_[stage]->Observe(Seconds(stages[static_cast<Stage>(stage)]));
  }
  MutexLock lock(mutex_);
  if (code == absl::StatusCode::kOk) {
    Add(statistics_.success, stages.total());
    Add(statistics_.queue, stages[Stage::kQueue]);
    Add(statistics_.compute_input, stages[Stage::kReceive] + stages[Stage::kDecode] + stages[Stage::kPreprocess]);
    Add(statistics_.compute_infer, stages[Stage::kCompute]);
    Add(statistics_.compute_output, stages[Stage::kPostprocess] + stages[Stage::kEncode]);
  } else {
    Add(statistics_.fail, stages.total());
  }
}

void ModelMeter::OnBatch(int images, Nanos gather, Nanos compute, Nanos scatter, int64_t peak_bytes) {
  batch_size_->Observe(images);
  batch_peak_memory_->Observe(static_cast<double>(peak_bytes));
  images_->Increment(images);
  MutexLock lock(mutex_);
  statistics_.last_inference_ms = WallClockMilliseconds();
  statistics_.inference_count += images;
  statistics_.execution_count += 1;
  ModelStatistics::Batch& batch = statistics_.batches[images];
  Add(batch.compute_input, gather);
  Add(batch.compute_infer, compute);
  Add(batch.compute_output, scatter);
}

void ModelMeter::OnQueueDepth(int places) { queue_depth_->Set(places); }

void ModelMeter::OnRejected(std::string_view reason) {
  const auto found = rejected_.find(reason);
  FOVEA_CHECK(found != rejected_.end());
  found->second->Increment();
}

void ModelMeter::OnBatchClosed(std::string_view reason) {
  const auto found = closed_.find(reason);
  FOVEA_CHECK(found != closed_.end());
  found->second->Increment();
}

ModelStatistics ModelMeter::statistics() const {
  MutexLock lock(mutex_);
  return statistics_;
}

}  // namespace fovea
