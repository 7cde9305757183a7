#include "server/compare/measure/paired_times.h"

#include <algorithm>
#include <numeric>

namespace fovea {
namespace {

// The verdict that one interval allows by itself.
std::optional<Verdict> Doubt(const std::optional<Estimate>& ratio) {
  if (!ratio) return Verdict::kFewRounds;
  if (ratio->blocks < kLeastBlocks) return Verdict::kUnsteady;
  if (ratio->upper > (1 + kWidestInterval) * ratio->lower) return Verdict::kWide;
  return std::nullopt;
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
ComparedTime Against(const RoundTimes& times, const RoundTimes& baseline) {
  return {.ms = QuartilesOf(times),
          .ratio = EstimateMedian(RoundByRound(times, baseline, std::divides<double>())),
          .difference_ms = EstimateMedian(RoundByRound(times, baseline, std::minus<double>()))};
}

}  // namespace

std::vector<size_t> RoundOrder(size_t variants, std::mt19937_64& random) {
  std::vector<size_t> order(variants);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  order.insert(order.end(), order.rbegin(), order.rend());
  return order;
}

bool IsVerdict(Verdict verdict) {
  return verdict == Verdict::kFaster || verdict == Verdict::kSlower ||
         verdict == Verdict::kNoDifference;
}

Verdict Judge(const std::optional<Estimate>& ratio, const std::optional<Estimate>& control) {
  if (control && (control->lower > 1 || control->upper < 1)) return Verdict::kControlOff;
  for (const auto* estimate : {&control, &ratio}) {
    if (const auto doubt = Doubt(*estimate)) return *doubt;
  }
  if (ratio->lower > control->upper) return Verdict::kSlower;
  if (ratio->upper < control->lower) return Verdict::kFaster;
  return Verdict::kNoDifference;
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

PairedTimes CompareTimes(std::span<const RoundTimes> variants, const RoundTimes& control) {
  const RoundTimes& baseline = variants.front();
  PairedTimes paired{.variants = {{.ms = QuartilesOf(baseline)}},
                     .control = Against(control, baseline)};
  paired.control.verdict = Judge(paired.control.ratio, paired.control.ratio);
  for (const RoundTimes& times : variants.subspan(1)) {
    ComparedTime& compared = paired.variants.emplace_back(Against(times, baseline));
    compared.verdict = Judge(compared.ratio, paired.control.ratio);
  }
  return paired;
}

}  // namespace fovea
