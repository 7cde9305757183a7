// The times of variants that ran in turn: in which order they run, what their times say, and
// whether they say anything. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/statistics.h"
#include "server/core/comparison.h"

namespace fovea {

// The order in which a round has `variants` run, 0 .. variants-1: there and back again, so that
// each runs twice and a machine that slows down evenly meanwhile slows all alike (A B B A). Drawn
// anew for each round: in a regular order, a machine that stalls at regular times would always
// stall the same variant.
std::vector<size_t> RoundOrder(size_t variants, std::mt19937_64& random);

// Milliseconds, one number a round: the mean of the round's two runs.
using RoundTimes = std::vector<double>;

struct PairedTimes {
  std::vector<ComparedTime> variants;  // the baseline first
  ComparedTime control;

  // Whether there is a verdict on each.
  bool settled() const;
};

// `variants` is not empty, and all have as many rounds, one or more.
std::vector<TimeSoFar> TimesSoFar(std::span<const RoundTimes> variants);

// `variants` is not empty, and all have as many rounds. `control`: the baseline's once more.
PairedTimes CompareTimes(std::span<const RoundTimes> variants, const RoundTimes& control);

inline constexpr double kWidestInterval = 0.10;  // the upper end over the lower, less 1
inline constexpr size_t kLeastBlocks = 10;       // see EstimateMedian

bool IsVerdict(Verdict verdict);

// The verdict on a variant from its ratio and the control's.
Verdict Judge(const std::optional<Estimate>& ratio, const std::optional<Estimate>& control);

}  // namespace fovea
