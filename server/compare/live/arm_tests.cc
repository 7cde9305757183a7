#include "server/compare/live/arm_tests.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace fovea {
namespace {

// The shortest window: bursts and the batches that they are run in are shorter.
constexpr Nanos kLeastWindow = 100 * kMillisecond;
// An arm that fails this share more, or less, than the baseline is equivalent.
constexpr double kErrorMargin = 0.01;

// `none`: no difference; `low` and `high`: the margin about it.
SequentialTest Judge(const AnytimeInterval& interval, uint64_t observations, double low,
                     double none_low, double none_high, double high) {
  SequentialTest test{.estimate = interval.estimate,
                      .lower = interval.lower,
                      .upper = interval.upper,
                      .observations = observations};
  if (low <= interval.lower && interval.upper <= high) {
    test.verdict = TestVerdict::kEquivalent;
  } else if (interval.upper < none_low) {
    test.verdict = TestVerdict::kLower;
  } else if (interval.lower > none_high) {
    test.verdict = TestVerdict::kHigher;
  }
  return test;
}

}  // namespace

ArmTests::ArmTests(const ExperimentPlan& plan, double error, bool by_windows)
    : error_(error),
      latency_margin_(plan.latency_margin),
      disagreement_margin_(plan.disagreement_margin),
      by_windows_(by_windows),
      disagreements_(0, 1, error),
      excesses_(-1, 1, error) {}

bool ArmTests::OnAnswer(bool of_baseline, bool failed, Nanos latency, Nanos now) {
  if (!by_windows_) return false;
  if (!window_began_) window_began_ = now;
  Side& side = window_[of_baseline ? 1 : 0];
  ++side.answers;
  if (failed) {
    ++side.failures;
  } else {
    side.log_latencies += std::log(static_cast<double>(std::max<Nanos>(latency, 1)));
  }
  const auto& [arm, baseline] = window_;
  if (arm.answers == 0 || baseline.answers == 0 || now - *window_began_ < kLeastWindow) {
    return false;
  }
  excesses_.Add(static_cast<double>(arm.failures) / arm.answers -
                static_cast<double>(baseline.failures) / baseline.answers);
  if (arm.timed() > 0 && baseline.timed() > 0) {
    log_ratios_.Add(arm.log_latencies / arm.timed() - baseline.log_latencies / baseline.timed());
  }
  window_ = {};
  window_began_.reset();
  return true;
}

std::vector<ArmTests::CopyRun> ArmTests::NextCopy() const {
  if (by_windows_) return {{.of_baseline = false}};
  const bool baseline_first = log_ratios_.count() % 2 == 1;
  return {{.of_baseline = baseline_first},
          {.of_baseline = baseline_first, .timed = true},
          {.of_baseline = !baseline_first},
          {.of_baseline = !baseline_first, .timed = true}};
}

void ArmTests::OnCopy(const Copy& copy) {
  if (copy.differs) disagreements_.Add(*copy.differs ? 1 : 0);
  if (by_windows_) return;
  excesses_.Add(copy.failed ? 1 : 0);  // the baseline has answered it
  if (copy.latency_ratio) log_ratios_.Add(std::log(*copy.latency_ratio));
}

std::optional<SequentialTest> ArmTests::latency_ratio() const {
  if (log_ratios_.count() == 0) return std::nullopt;
  AnytimeInterval interval = log_ratios_.Interval(error_);
  interval = {std::exp(interval.estimate), std::exp(interval.lower), std::exp(interval.upper)};
  return Judge(interval, log_ratios_.count(), 1 - latency_margin_, 1, 1, 1 + latency_margin_);
}

std::optional<SequentialTest> ArmTests::disagreement() const {
  if (disagreements_.count() == 0) return std::nullopt;
  // No answer can differ less than none: up to the margin is no difference that counts.
  return Judge(disagreements_.Interval(), disagreements_.count(), 0, 0, disagreement_margin_,
               disagreement_margin_);
}

std::optional<SequentialTest> ArmTests::error_excess() const {
  if (excesses_.count() == 0) return std::nullopt;
  return Judge(excesses_.Interval(), excesses_.count(), -kErrorMargin, 0, 0, kErrorMargin);
}

std::optional<std::string> ArmTests::Broken(const GuardRails& rails, const std::string& arm) const {
  if (const auto ratio = latency_ratio(); ratio && ratio->lower > rails.max_latency_ratio) {
    return absl::StrFormat(
        "max_latency_ratio: %s takes %.3g times as long as the baseline or more, beyond %.3g", arm,
        ratio->lower, rails.max_latency_ratio);
  }
  if (const auto share = disagreement();
      share && rails.max_disagreement > 0 && share->lower > rails.max_disagreement) {
    return absl::StrFormat(
        "max_disagreement: %s differs from the baseline in %.3g %% of its answers or more, beyond "
        "%.3g %%",
        arm, 100 * share->lower, 100 * rails.max_disagreement);
  }
  if (const auto excess = error_excess(); excess && excess->lower > rails.max_error_excess) {
    return absl::StrFormat(
        "max_error_excess: %s fails %.3g %% of requests more than the baseline or more, beyond "
        "%.3g %%",
        arm, 100 * excess->lower, 100 * rails.max_error_excess);
  }
  return std::nullopt;
}

}  // namespace fovea
