// What an experiment knows of one arm against its baseline.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/sequential.h"
#include "server/core/clock.h"
#include "server/core/live_experiment.h"

namespace fovea {

// Three tests that may be looked at any time. Not thread-safe; pure: time comes through a
// parameter.
//
// An arm with traffic answers other requests than the baseline. Both are looked at in windows of
// time in which both have answered: what differs between them is one observation, whatever the
// number of requests in it. So what slows everything down for a while, or makes it fail, cancels;
// and requests that depend on each other, because they came at once or in one queue, count once.
// This assumes that the ratio of latencies, and the excess of failures, is one over time, up to
// noise that ends; and that callers of both arms ask for the same kind of thing, which a split by
// keys gives where there are many keys.
//
// An arm that only gets copies has answered the same requests as the baseline: each is one
// observation of all three. Copies are made while the device is idle, and given up where a request
// comes. That leaves out long ones a little more often, which matters as little as their times
// differ among themselves. A copy's time cannot be compared with its request's: the device was busy
// or had slept, and the caches held other data. So the baseline runs the copy as well, and the two
// copies are compared.
class ArmTests {
 public:
  // `error`: the error probability of each of the three tests.
  ArmTests(const ExperimentPlan& plan, double error, bool by_windows);

  // A caller of the arm, or of the baseline, has been answered. True: the tests have changed,
  // because a window is over.
  bool OnAnswer(bool of_baseline, bool failed, Nanos latency, Nanos now);

  // A run of a request's copy.
  struct CopyRun {
    bool of_baseline = false;
    bool timed = false;
  };
  // Runs of the next copy, in order. By windows: one, on the arm. Otherwise two on each model, the
  // second timed: the first fills the caches, whatever ran before. Which model goes first
  // alternates, so that effects of the order cancel.
  std::vector<CopyRun> NextCopy() const;

  struct Copy {
    bool failed = false;
    std::optional<double> latency_ratio;  // of the timed runs, to the baseline's
    std::optional<bool> differs;
  };
  void OnCopy(const Copy& copy);

  // None: nothing has been seen.
  std::optional<SequentialTest> latency_ratio() const;
  std::optional<SequentialTest> disagreement() const;
  std::optional<SequentialTest> error_excess() const;

  // Says in words which of the plan's guard rails `arm` has broken with certainty; none: it has
  // broken none.
  std::optional<std::string> Broken(const GuardRails& rails, const std::string& arm) const;

 private:
  // What one of the two has answered in a window.
  struct Side {
    int answers = 0;
    int failures = 0;
    double log_latencies = 0;  // a sum over those that did not fail
    int timed() const { return answers - failures; }
  };

  const double error_;
  const double latency_margin_, disagreement_margin_;
  const bool by_windows_;
  std::array<Side, 2> window_;  // the arm's, the baseline's
  std::optional<Nanos> window_began_;
  SequentialMean log_ratios_;
  BoundedSequentialMean disagreements_, excesses_;
};

}  // namespace fovea
