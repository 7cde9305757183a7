#include "client/cpp/cli/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace fovea::client {
namespace {

using TrialTime = absl::Duration Trial::*;

Quartiles TimesOf(const std::vector<Trial>& trials, TrialTime time) {
  std::vector<double> milliseconds;
  for (const Trial& trial : trials) {
    milliseconds.push_back(absl::ToDoubleMilliseconds(trial.*time));
  }
  return QuartilesOf(std::move(milliseconds));
}

Quartiles RatiosOf(const std::vector<Trial>& trials, const std::vector<Trial>& baseline,
                   TrialTime time) {
  std::vector<double> ratios;
  for (size_t round = 0; round < trials.size(); ++round) {
    const absl::Duration reference = baseline[round].*time;
    // A server without receipts reports no compute time.
    if (reference > absl::ZeroDuration()) {
      ratios.push_back(absl::FDivDuration(trials[round].*time, reference));
    }
  }
  return QuartilesOf(std::move(ratios));
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

}  // namespace

std::vector<size_t> RoundOrder(size_t models, size_t round) {
  std::vector<size_t> order(models);
  std::iota(order.begin(), order.end(), size_t{0});
  if (round % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

std::vector<ComparedModel> Compare(const std::vector<Measured>& measured) {
  const Measured& baseline = measured.front();
  std::vector<ComparedModel> rows;
  for (const Measured& model : measured) {
    ComparedModel& row = rows.emplace_back();
    row.model = model.model;
    row.attention = model.attention;
    row.untrained = model.untrained;
    row.latency_ms = TimesOf(model.trials, &Trial::latency);
    row.compute_ms = TimesOf(model.trials, &Trial::compute);
    row.latency_ratio = RatiosOf(model.trials, baseline.trials, &Trial::latency);
    row.compute_ratio = RatiosOf(model.trials, baseline.trials, &Trial::compute);
    for (const Trial& trial : model.trials) {
      row.peak_bytes = std::max(row.peak_bytes, trial.peak_bytes);
      row.largest_batch = std::max(row.largest_batch, trial.batch_size);
    }
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
  return rows;
}

}  // namespace fovea::client
