#include "client/cpp/cli/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace fovea::client {
namespace {

using TrialTime = absl::Duration Trial::*;

// The verdict that one interval allows by itself.
std::optional<Verdict> Doubt(const std::optional<Estimate>& ratio) {
  if (!ratio) return Verdict::kFewRounds;
  if (ratio->blocks < kLeastBlocks) return Verdict::kUnsteady;
  if (ratio->upper > (1 + kWidestInterval) * ratio->lower) return Verdict::kWide;
  return std::nullopt;
}

// Without ratio and verdict.
ComparedTime TimesOf(const std::vector<Trial>& trials, TrialTime time) {
  std::vector<double> milliseconds;
  for (const Trial& trial : trials) {
    milliseconds.push_back(absl::ToDoubleMilliseconds(trial.*time));
  }
  return {.ms = QuartilesOf(std::move(milliseconds))};
}

std::vector<double> RatiosOf(const std::vector<Trial>& trials, const std::vector<Trial>& baseline,
                             TrialTime time) {
  std::vector<double> ratios;
  for (size_t round = 0; round < trials.size(); ++round) {
    ratios.push_back(absl::FDivDuration(trials[round].*time, baseline[round].*time));
  }
  return ratios;
}

// Fills in the ratios and verdicts of one kind of time.
void CompareTimes(const std::vector<Measured>& measured, const std::vector<Trial>& control,
                  TrialTime time, ComparedTime ComparedModel::*compared, Comparison& comparison,
                  ComparedTime& compared_control) {
  const std::vector<Trial>& baseline = measured.front().trials;
  compared_control = TimesOf(control, time);
  for (size_t i = 0; i < measured.size(); ++i) {
    comparison.models[i].*compared = TimesOf(measured[i].trials, time);
  }
  const bool known = std::all_of(baseline.begin(), baseline.end(), [&](const Trial& trial) {
    return trial.*time > absl::ZeroDuration();
  });
  if (!known) return;
  compared_control.ratio = EstimateMedian(RatiosOf(control, baseline, time));
  compared_control.verdict = Judge(compared_control.ratio, compared_control.ratio);
  for (size_t i = 1; i < measured.size(); ++i) {
    ComparedTime& row = comparison.models[i].*compared;
    row.ratio = EstimateMedian(RatiosOf(measured[i].trials, baseline, time));
    row.verdict = Judge(row.ratio, compared_control.ratio);
  }
}

// The largest difference between the confidences of one class; none where the classes differ.
std::optional<double> ConfidenceDifference(const std::vector<ClassScore>& scores,
                                           const std::vector<ClassScore>& baseline) {
  if (scores.size() != baseline.size()) return std::nullopt;
  std::map<int, double> expected;
  for (const ClassScore& score : baseline) expected[score.index] = score.confidence;
  double largest = 0;
  for (const ClassScore& score : scores) {
    const auto found = expected.find(score.index);
    if (found == expected.end()) return std::nullopt;
    largest = std::max(largest, std::abs(score.confidence - found->second));
  }
  return largest;
}

void CompareOpinions(const Measured& model, const Measured& baseline, ComparedModel& row) {
  double largest = 0;
  bool comparable = true;
  for (size_t image = 0; image < model.opinions.size(); ++image) {
    const std::vector<ClassScore>& scores = model.opinions[image];
    const std::vector<ClassScore>& expected = baseline.opinions[image];
    row.top1.push_back(scores.front());
    row.images_agreeing += scores.front().index == expected.front().index;
    const auto difference = ConfidenceDifference(scores, expected);
    comparable = comparable && difference;
    largest = std::max(largest, difference.value_or(0));
  }
  if (comparable) row.max_confidence_difference = largest;
}

}  // namespace

std::vector<size_t> RoundOrder(size_t requests, std::mt19937_64& random) {
  std::vector<size_t> order(requests);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
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

bool Comparison::settled() const {
  return std::all_of(models.begin() + 1, models.end(), [](const ComparedModel& model) {
    return IsVerdict(model.latency.verdict) &&
           (IsVerdict(model.compute.verdict) || model.compute.verdict == Verdict::kNotMeasured);
  });
}

Comparison Compare(const std::vector<Measured>& measured, const std::vector<Trial>& control) {
  Comparison comparison{.rounds = control.size()};
  for (const Measured& model : measured) {
    ComparedModel& row = comparison.models.emplace_back();
    row.model = model.model;
    row.attention = model.attention;
    row.untrained = model.untrained;
    for (const Trial& trial : model.trials) {
      row.peak_bytes = std::max(row.peak_bytes, trial.peak_bytes);
      row.largest_batch = std::max(row.largest_batch, trial.batch_size);
    }
    CompareOpinions(model, measured.front(), row);
  }
  CompareTimes(measured, control, &Trial::latency, &ComparedModel::latency, comparison,
               comparison.control_latency);
  CompareTimes(measured, control, &Trial::compute, &ComparedModel::compute, comparison,
               comparison.control_compute);
  return comparison;
}

}  // namespace fovea::client
