// Live comparisons: a model's own traffic shared out between variants of it, or copied to them, and
// what that has shown so far. Plain data, and the interface that runs it; the fields are those of
// proto/fovea/v1/experiment.proto, which says what each means.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/comparison.h"
#include "server/core/memory_budget.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"
#include "server/core/stages.h"
#include "server/core/variant.h"

namespace fovea {

struct ExperimentArm {
  Variant variant;
  double weight = 0;
  bool shadow = false;
};

struct GuardRails {
  double max_latency_ratio = 2;
  double max_disagreement = 0;  // 0: none
  double max_error_excess = 0.05;
  Nanos max_time = 7 * 24 * 3600 * kSecond;
  double max_shadow_share = 0.1;
};

struct ExperimentPlan {
  std::string name;
  std::string model_name;
  std::vector<ExperimentArm> arms;  // the baseline first
  GuardRails guard_rails;
  double error_probability = 0.05;
  double latency_margin = kEquivalenceMargin;
  double disagreement_margin = 0.05;
};

enum class TestVerdict { kUndecided, kLower, kHigher, kEquivalent };

struct SequentialTest {
  double estimate = 0;
  double lower = 0;
  double upper = 0;
  uint64_t observations = 0;
  TestVerdict verdict = TestVerdict::kUndecided;
};

struct ArmReport {
  std::string name;  // as receipts and metrics have it
  std::string model_name;
  std::string model_version;
  std::string attention;             // canonical text
  std::string weights_of_attention;  // empty: the model's own
  uint64_t requests = 0;
  uint64_t failures = 0;
  uint64_t shadow_requests = 0;
  uint64_t shadow_skipped = 0;
  double mean_latency_ms = 0;
  // None: this is the baseline, or nothing has been seen.
  std::optional<SequentialTest> latency_ratio, disagreement, error_excess;
};

// What became of a request that an arm was to answer, or of a copy for it.
enum class ArmOutcome { kOk, kFailed, kShadow, kShadowSkipped };

enum class ExperimentState { kRunning, kStopped, kGuardRail, kExpired, kModelGone };

// How an experiment stands.
struct LiveExperiment {
  ExperimentPlan plan;
  ExperimentState state = ExperimentState::kRunning;
  std::string reason;  // where it has ended
  Nanos running = 0;
  std::vector<ArmReport> arms;  // as the plan's
  Provenance measured;
};

// One caller's request that an experiment has sent to one of its arms, from when its model is known
// until it is answered. One call at a time.
class RoutedRequest {
 public:
  virtual ~RoutedRequest() = default;

  // The arm's model, never null, and the names of the experiment and of the arm as metrics and
  // receipts have them.
  virtual const std::shared_ptr<const ServingModel>& model() const = 0;
  virtual const std::string& experiment() const = 0;
  virtual const std::string& arm() const = 0;

  // It has been read, and goes to its model next: where a copy of it may be made, its input is kept
  // for that. `input_bytes`: how many its message has, and what has been unpacked or read besides;
  // the copy then holds them in `memory`.
  virtual void OnRead(const InferenceRequest& request, int64_t input_bytes,
                      MemoryBudget& memory) = 0;
  // Its results, before they are encoded.
  virtual void OnResults(const InferenceResponse& response) = 0;
  // Its answer is about to leave. `allowed`: the time that its caller gave it, from its arrival on;
  // kNever: any.
  virtual void OnAnswered(absl::StatusCode code, const StageTimes& stages, Nanos allowed) = 0;
  // Its answer has been handed to the wire: only now may its copy take anything from others.
  virtual void OnLeft() = 0;
};

// Thread-safe.
class LiveExperiments {
 public:
  virtual ~LiveExperiments() = default;

  using Done = std::function<void(absl::StatusOr<LiveExperiment>)>;
  // Returns at once. `done` is called once, when the experiment runs or cannot: on a thread of its
  // own, or here where it is refused. It returns quickly. Setting `cancellation` gives the start up
  // while it loads. Errors as ExperimentService.StartExperiment's.
  virtual void Start(ExperimentPlan plan, CancellationPtr cancellation, Done done) = 0;
  // The others return quickly. NOT_FOUND: none has that name.
  virtual absl::StatusOr<LiveExperiment> Get(std::string_view name) const = 0;
  virtual std::vector<LiveExperiment> List() const = 0;  // by name
  virtual absl::StatusOr<LiveExperiment> Stop(std::string_view name) = 0;
  // FAILED_PRECONDITION: it runs.
  virtual absl::Status Delete(std::string_view name) = 0;

  // Where a request goes that names `model` and no version; null: no experiment has its traffic.
  // Requests with one `key` go to one arm as long as the weights are what they are; requests
  // without one (empty) are assigned each by itself. Returns quickly.
  virtual std::unique_ptr<RoutedRequest> Route(std::string_view model, std::string_view key) = 0;
};

}  // namespace fovea
