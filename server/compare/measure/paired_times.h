// The times of variants that ran in turn: in which order they run, what their times say, and
// whether they say anything. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/statistics.h"
#include "server/core/comparison.h"

namespace fovea {

struct RoundPass {
  size_t variant = 0;
  bool timed = true;

  bool operator==(const RoundPass&) const = default;
};

// The passes of a round over `variants`, 0 .. variants-1: there and back again, so that each is
// timed twice and a machine that slows down evenly meanwhile slows all alike (A B C C B A). Drawn
// anew for each round: in a regular order, a machine that stalls at regular times would always
// stall the same variant.
//
// A pass that follows one of the same variant, or is the first over an image, finds different data
// in the caches. Two untimed passes make each timed one follow another variant's over the same
// image: (B) A B C (A) C B A.
std::vector<RoundPass> RoundOrder(size_t variants, std::mt19937_64& random);

// Milliseconds, one number a round: the mean of the round's two timed passes.
using RoundTimes = std::vector<double>;

// Rounds of passes, and their times. Not thread-safe.
class PairedRounds {
 public:
  // Runs the passes of a round, one after the other, on its image; milliseconds of each.
  using Passes = absl::FunctionRef<absl::StatusOr<std::vector<double>>(
      std::span<const RoundPass> passes, size_t round)>;

  // One round of `variants`, which are as many each time. Errors are those of `run`; a round that
  // ends with one has no times.
  absl::Status Run(size_t variants, Passes run);

  size_t rounds() const { return rounds_; }
  const std::vector<RoundTimes>& times() const { return times_; }  // of each variant

 private:
  std::vector<RoundTimes> times_;
  size_t rounds_ = 0;
  std::mt19937_64 random_{1};  // a comparison's order can be had again
};

// The numbers of rounds after which verdicts are looked at: `least`, then twice as many and so on,
// until all verdicts are there, or there are `most`. `least` is not 0.
std::vector<size_t> Looks(size_t least, size_t most);

struct PairedTimes {
  std::vector<ComparedTime> variants;  // the baseline first
  ComparedTime control;

  // Whether there is a verdict on each.
  bool settled() const;
};

// `variants` is not empty, and all have as many rounds, one or more.
std::vector<TimeSoFar> TimesSoFar(std::span<const RoundTimes> variants);

// `variants` is not empty, and all have as many rounds. `control`: those of the baseline, loaded
// once more. `looks`: how often the times may be looked at. Stopping at the first verdict can err
// at every look, so the intervals hold at all looks together with probability kConfidence
// (Bonferroni).
PairedTimes CompareTimes(std::span<const RoundTimes> variants, const RoundTimes& control,
                         size_t looks);

inline constexpr double kWidestInterval = 0.10;  // the upper end over the lower, less 1
inline constexpr size_t kLeastBlocks = 10;       // see EstimateMedian

bool IsVerdict(Verdict verdict);

// True if `part` can be the time of a part of `whole`: its median is no larger, and the interval of
// the median share, round by round, does not reach above 1. Fewer rounds than kLeastSeries have no
// interval; then no round's share may be above 1.
bool CanBePart(const RoundTimes& part, const RoundTimes& whole);

// The verdict on a variant from its ratio and the control's.
Verdict Judge(const std::optional<Estimate>& ratio, const std::optional<Estimate>& control);

}  // namespace fovea
