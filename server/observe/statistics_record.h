// Triton's statistics of one model version: perf_analyzer reads them before and after its windows,
// so that no number may ever go back.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "server/core/clock.h"
#include "server/core/model_catalog.h"
#include "server/core/model_statistics.h"
#include "server/core/mutex.h"
#include "server/core/stages.h"

namespace fovea {

// Why a request failed, as Triton's metrics tell it.
enum class TritonFailure { kRejected, kCanceled, kBackend, kOther };
inline constexpr std::array<std::string_view, 4> kTritonFailureNames = {"REJECTED", "CANCELED",
                                                                        "BACKEND", "OTHER"};
// By the status alone. kRejected: its time was up, or the server had no room for it; kBackend: it
// failed while it ran.
TritonFailure TritonFailureOf(absl::StatusCode code);

// Thread-safe. A reload goes on with the record of the version that it replaces.
class StatisticsRecord {
 public:
  explicit StatisticsRecord(const ModelView& model);

  // The memory of what was loaded last.
  void Describe(const ModelView& model);

  // A request was answered. Only the stages of those that succeeded count, as in Triton:
  // compute_input is the time from the message's arrival until its pixels are ready, compute_output
  // from the logits until the answer is encoded.
  void OnAnswered(absl::StatusCode code, const StageTimes& stages);
  // A batch was run: what gathering, the model and handing out took.
  void OnBatch(int images, Nanos gather, Nanos compute, Nanos scatter);

  ModelStatistics Read() const;
  // How many requests failed, by TritonFailure.
  std::array<uint64_t, kTritonFailureNames.size()> failures() const;

 private:
  mutable Mutex mutex_;
  ModelStatistics statistics_ ABSL_GUARDED_BY(mutex_);
  std::array<uint64_t, kTritonFailureNames.size()> failures_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace fovea
