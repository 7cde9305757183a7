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

}  // namespace fovea
