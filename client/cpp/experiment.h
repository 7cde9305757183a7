// Live comparisons: a model's own traffic shared out between variants of it, or copied to one of
// them. Plain data; the fields are those of proto/fovea/v1/experiment.proto, which says what each
// means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/comparison.h"
#include "client/cpp/types.h"
#include "client/cpp/variant.h"

namespace fovea::client {

struct ExperimentArm {
  Variant variant;
  double weight = 0;    // its part of the traffic, beside the other arms'; 0: it answers nobody
  bool shadow = false;  // it also gets copies of what the baseline has answered
};

// What ends an experiment by itself. 0: the server's default, which the answer names.
struct GuardRails {
  double max_latency_ratio = 0;
  double max_disagreement = 0;  // stays 0: none
  double max_error_excess = 0;
  absl::Duration max_time = absl::ZeroDuration();  // whole seconds
  double max_shadow_share = 0;
};

struct ExperimentPlan {
  std::string name;
  std::string model_name;           // whose traffic it is
  std::vector<ExperimentArm> arms;  // two to eight, the baseline first
  GuardRails guard_rails;
  // 0: the server's default.
  double error_probability = 0;
  double latency_margin = 0;
  double disagreement_margin = 0;
};

// An estimate whose interval holds the truth at all times at once.
struct SequentialTest {
  enum class Verdict {
    kUnknown,  // the server is newer than this library
    kUndecided,
    kLower,
    kHigher,
    kEquivalent,
  };
  double estimate = 0;
  double lower = 0;
  double upper = 0;
  uint64_t observations = 0;
  Verdict verdict = Verdict::kUnknown;
};

struct ArmReport {
  std::string name;  // as receipts and metrics have it: "shapes:knn:k=9"
  ModelId model;
  std::string attention;
  std::string weights_of_attention;  // empty: the model's own; else not fine-tuned for `attention`
  uint64_t requests = 0;
  uint64_t failures = 0;
  uint64_t shadow_requests = 0;
  uint64_t shadow_skipped = 0;
  double mean_latency_ms = 0;
  // Against the baseline; none: this is the baseline, or nothing has been seen.
  std::optional<SequentialTest> latency_ratio;
  std::optional<SequentialTest> disagreement;
  std::optional<SequentialTest> error_excess;
};

enum class ExperimentState {
  kUnknown,  // the server is newer than this library
  kRunning,
  kStopped,
  kGuardRail,
  kExpired,
  kModelGone,
};

struct Experiment {
  ExperimentPlan plan;  // with the server's defaults filled in
  ExperimentState state = ExperimentState::kUnknown;
  std::string reason;  // in words, where it has ended
  absl::Duration running;
  std::vector<ArmReport> arms;  // as the plan's
  Provenance measured;
};

}  // namespace fovea::client
