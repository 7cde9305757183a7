// Variants that run in turn on the held lane, and what their passes took.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
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
  std::vector<double> postprocess_ms;
  // Of the rounds, as compute_ms() of MeasuredVariants, of which it is a part. Empty: it has no
  // attention, or its time was not seen.
  RoundTimes attention_ms;
  int64_t peak_bytes = 0;
};

// DEADLINE_EXCEEDED compare.too_long: the hour is over before anything was measured.
absl::Status TooLongToMeasure();

// Not thread-safe. All that it is given outlives it. Every call ends with a pass's error.
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
  // A round of all that have been added (RoundOrder), over the images in turn. Attention is timed
  // in the same passes; where it is served folded into its projections, in a further one behind
  // them, with attention apart.
  absl::Status RunRound();

  size_t rounds() const { return rounds_.rounds(); }
  // Of the rounds, of each variant.
  const std::vector<RoundTimes>& compute_ms() const { return rounds_.times(); }
  // Unloads the variant that was added last. No more rounds are run.
  void DropLast() { variants_.pop_back(); }

 private:
  HeldLane& lane_;
  Clock& clock_;
  const CancellationPtr cancellation_;
  std::vector<MeasuredVariant> variants_;
  PairedRounds rounds_;
};

}  // namespace fovea
