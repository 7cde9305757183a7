// Variants that run in turn on the held lane, and what their passes took.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/compare/held_lane.h"
#include "server/compare/measure/loaded_variant.h"
#include "server/compare/measure/paired_times.h"
#include "server/compare/measure/prepared_images.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/request.h"

namespace fovea {

struct MeasuredVariant {
  std::unique_ptr<LoadedVariant> loaded;
  const PreparedImages* images = nullptr;  // outlive it
  std::vector<Results> opinions;           // of each image
  RoundTimes compute_ms;
  std::vector<double> postprocess_ms;
  std::vector<double> attention_ms;  // empty: it has no attention, or it was not timed
  int64_t peak_bytes = 0;
};

// DEADLINE_EXCEEDED compare.too_long: the hour is over before anything was measured.
absl::Status TooLongToMeasure();

// Not thread-safe. All that it is given outlives it. Every call ends with CANCELLED where
// `cancellation` is set before a pass, and with a pass's error.
class MeasuredVariants {
 public:
  MeasuredVariants(HeldLane& lane, Clock& clock, CancellationPtr cancellation)
      : lane_(lane), clock_(clock), cancellation_(std::move(cancellation)) {}

  // All have as many images.
  void Add(std::unique_ptr<LoadedVariant> loaded, const PreparedImages& images);
  const std::vector<MeasuredVariant>& all() const { return variants_; }

  // What every variant finds in every image. Not timed: it also warms them up, and tells whether
  // models can wait for more of their passes. RESOURCE_EXHAUSTED compare.too_slow: one takes longer
  // than `max_pass`; DEADLINE_EXCEEDED compare.too_long: not all are done by `end`.
  absl::Status AskOpinions(Nanos max_pass, Nanos end);
  // Every variant twice, over the images in turn; with `control` the first one twice more.
  absl::Status RunRound(bool control);
  // So often every variant with its attention timed.
  absl::Status TimeAttention(int passes);

  size_t rounds() const { return rounds_; }
  const RoundTimes& control_ms() const { return control_ms_; }

 private:
  HeldLane& lane_;
  Clock& clock_;
  const CancellationPtr cancellation_;
  std::vector<MeasuredVariant> variants_;
  RoundTimes control_ms_;
  size_t rounds_ = 0;
  std::mt19937_64 random_{1};  // a comparison's order can be had again
};

}  // namespace fovea
