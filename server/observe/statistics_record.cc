#include "server/observe/statistics_record.h"

#include <chrono>

namespace fovea {
namespace {

// The protocol wants a time of day; nothing is decided by it.
uint64_t WallClockMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void Add(DurationSum& sum, Nanos duration) {
  sum.count += 1;
  sum.nanoseconds += static_cast<uint64_t>(duration);
}

}  // namespace

TritonFailure TritonFailureOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnavailable:
      return TritonFailure::kRejected;
    case absl::StatusCode::kCancelled:
      return TritonFailure::kCanceled;
    case absl::StatusCode::kInternal:
      return TritonFailure::kBackend;
    default:
      return TritonFailure::kOther;
  }
}

StatisticsRecord::StatisticsRecord(const ModelView& model) {
  statistics_.name = model.name;
  statistics_.version = model.version;
}

void StatisticsRecord::Describe(const ModelView& model) {
  MutexLock lock(mutex_);
  statistics_.memory_bytes = model.memory_bytes;
}

void StatisticsRecord::OnAnswered(absl::StatusCode code, const StageTimes& stages) {
  MutexLock lock(mutex_);
  if (code != absl::StatusCode::kOk) {
    Add(statistics_.fail, stages.total());
    ++failures_[static_cast<size_t>(TritonFailureOf(code))];
    return;
  }
  Add(statistics_.success, stages.total());
  Add(statistics_.queue, stages[Stage::kQueue]);
  Add(statistics_.compute_input,
      stages[Stage::kReceive] + stages[Stage::kDecode] + stages[Stage::kPreprocess]);
  Add(statistics_.compute_infer, stages[Stage::kCompute]);
  Add(statistics_.compute_output, stages[Stage::kPostprocess] + stages[Stage::kEncode]);
}

void StatisticsRecord::OnBatch(int images, Nanos gather, Nanos compute, Nanos scatter) {
  MutexLock lock(mutex_);
  statistics_.last_inference_ms = WallClockMilliseconds();
  statistics_.inference_count += static_cast<uint64_t>(images);
  statistics_.execution_count += 1;
  ModelStatistics::Batch& batch = statistics_.batches[static_cast<uint64_t>(images)];
  Add(batch.compute_input, gather);
  Add(batch.compute_infer, compute);
  Add(batch.compute_output, scatter);
}

ModelStatistics StatisticsRecord::Read() const {
  MutexLock lock(mutex_);
  return statistics_;
}

std::array<uint64_t, kTritonFailureNames.size()> StatisticsRecord::failures() const {
  MutexLock lock(mutex_);
  return failures_;
}

}  // namespace fovea
