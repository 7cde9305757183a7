#include "server/compare/measure/paired_times.h"

#include <algorithm>
#include <numeric>

#include "base/status.h"

namespace fovea {
namespace {

// The verdict that one interval allows by itself.
std::optional<Verdict> Doubt(const std::optional<Estimate>& ratio) {
  if (!ratio) return Verdict::kFewRounds;
  if (ratio->blocks < kLeastBlocks) return Verdict::kUnsteady;
  if (ratio->upper > (1 + kWidestInterval) * ratio->lower) return Verdict::kWide;
  return std::nullopt;
}

bool Within(const Estimate& ratio) {
  return 1 - kEquivalenceMargin <= ratio.lower && ratio.upper <= 1 + kEquivalenceMargin;
}

template <typename Combine>
std::vector<double> RoundByRound(const RoundTimes& times, const RoundTimes& baseline,
                                 Combine combine) {
  std::vector<double> combined;
  for (size_t round = 0; round < times.size(); ++round) {
    combined.push_back(combine(times[round], baseline[round]));
  }
  return combined;
}

// Without a verdict.
ComparedTime Against(const RoundTimes& times, const RoundTimes& baseline, double confidence) {
  return {
      .ms = QuartilesOf(times),
      .ratio = EstimateMedian(RoundByRound(times, baseline, std::divides<double>()), confidence),
      .difference_ms =
          EstimateMedian(RoundByRound(times, baseline, std::minus<double>()), confidence)};
}

}  // namespace

std::vector<RoundPass> RoundOrder(size_t variants, std::mt19937_64& random) {
  std::vector<size_t> order(variants);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<RoundPass> passes;
  const auto add = [&](size_t variant) { passes.push_back({variant}); };
  passes.push_back({.variant = order[variants > 1 ? 1 : 0], .timed = false});
  std::for_each(order.begin(), order.end(), add);
  passes.push_back({.variant = order[0], .timed = false});
  std::for_each(order.rbegin(), order.rend(), add);
  return passes;
}

absl::Status PairedRounds::Run(size_t variants, Passes run) {
  const std::vector<RoundPass> passes = RoundOrder(variants, random_);
  FOVEA_ASSIGN_OR_RETURN(const std::vector<double> took, run(passes, rounds_));
  times_.resize(variants);
  for (RoundTimes& times : times_) times.push_back(0);
  for (size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].timed) times_[passes[i].variant].back() += took[i] / 2;
  }
  ++rounds_;
  return absl::OkStatus();
}

std::vector<size_t> Looks(size_t least, size_t most) {
  std::vector<size_t> looks = {least};
  while (looks.back() < most) looks.push_back(std::min(2 * looks.back(), most));
  return looks;
}

bool IsVerdict(Verdict verdict) {
  return verdict == Verdict::kFaster || verdict == Verdict::kSlower ||
         verdict == Verdict::kEquivalent;
}

Verdict Judge(const std::optional<Estimate>& ratio, const std::optional<Estimate>& control) {
  if (const auto doubt = Doubt(control)) return *doubt;
  const bool control_within = Within(*control);
  if (!control_within && (control->lower > 1 || control->upper < 1)) return Verdict::kControlOff;
  if (const auto doubt = Doubt(ratio)) return *doubt;
  if (Within(*ratio)) return Verdict::kEquivalent;
  if (ratio->lower > std::max(1.0, control->upper)) return Verdict::kSlower;
  if (ratio->upper < std::min(1.0, control->lower)) return Verdict::kFaster;
  return Verdict::kUndecided;
}

bool CanBePart(const RoundTimes& part, const RoundTimes& whole) {
  if (QuartilesOf(part).median > QuartilesOf(whole).median) return false;
  const std::vector<double> shares = RoundByRound(part, whole, std::divides<double>());
  const std::optional<Estimate> share = EstimateMedian(shares);
  if (share) return share->upper <= 1;
  return std::none_of(shares.begin(), shares.end(), [](double one) { return one > 1; });
}

bool PairedTimes::settled() const {
  return std::all_of(variants.begin() + 1, variants.end(),
                     [](const ComparedTime& time) { return IsVerdict(time.verdict); });
}

std::vector<TimeSoFar> TimesSoFar(std::span<const RoundTimes> variants) {
  const RoundTimes& baseline = variants.front();
  std::vector<TimeSoFar> so_far;
  for (const RoundTimes& times : variants) {
    const auto ratios = RoundByRound(times, baseline, std::divides<double>());
    so_far.push_back({QuartilesOf(times), QuartilesOf(ratios).median});
  }
  return so_far;
}

PairedTimes CompareTimes(std::span<const RoundTimes> variants, const RoundTimes& control,
                         size_t looks) {
  const double confidence = 1 - (1 - kConfidence) / static_cast<double>(looks);
  const RoundTimes& baseline = variants.front();
  PairedTimes paired{.variants = {{.ms = QuartilesOf(baseline)}},
                     .control = Against(control, baseline, confidence)};
  paired.control.verdict = Judge(paired.control.ratio, paired.control.ratio);
  for (const RoundTimes& times : variants.subspan(1)) {
    ComparedTime& compared = paired.variants.emplace_back(Against(times, baseline, confidence));
    compared.verdict = Judge(compared.ratio, paired.control.ratio);
  }
  return paired;
}

}  // namespace fovea
