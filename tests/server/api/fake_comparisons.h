// A runner of comparisons that does as a test says.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "server/core/comparison.h"
#include "server/core/testing/notification.h"

namespace fovea {

// Keeps the request until the test answers it. One at a time.
class FakeComparisons final : public ComparisonRunner {
 public:
  void Compare(CompareRequest request, CancellationPtr cancellation, Progress progress,
               Done done) override {
    request_ = std::move(request);
    cancellation_ = std::move(cancellation);
    progress_ = std::move(progress);
    done_ = std::move(done);
    cancellation_->OnCancel([this] { cancelled_.Notify(); });
    asked_.Notify();
  }

  // Once it has been asked.
  const CompareRequest& request() {
    asked_.Wait();
    return request_;
  }
  void Tell(int done, int total) {
    asked_.Wait();
    progress_({.phase = ComparisonProgress::Phase::kMeasuring, .done = done, .total = total});
  }
  void Answer(absl::StatusOr<Comparison> comparison) {
    asked_.Wait();
    progress_ = nullptr;
    std::exchange(done_, nullptr)(std::move(comparison));
  }
  void AwaitCancelled() { cancelled_.Wait(); }

  // With a number in each kind of field.
  static Comparison Example() {
    Comparison comparison{.id = "c1", .rounds = 30, .batch_size = 2, .threads = 4, .device = "CPU"};
    comparison.images = {{.size = {48, 64}}};
    ComparedVariant baseline{.model_name = "vit", .model_version = "1", .attention = "self/dense"};
    baseline.compute.ms = {1, 2, 3};
    baseline.answers = {{.label = "cat", .confidence = 0.5}};
    ComparedVariant other = baseline;
    other.attention = "self/knn:k=3";
    other.weights_of_attention = "self/dense";
    other.compute.ratio = Estimate{1.5, 1.25, 1.75, 50};
    other.compute.verdict = Verdict::kWide;
    other.agreement = ClassAgreement{.images = 1, .same_top1 = 1, .kl_divergence = 0.25};
    comparison.variants = {baseline, other};
    return comparison;
  }

 private:
  Notification asked_, cancelled_;
  CompareRequest request_;
  CancellationPtr cancellation_;
  Progress progress_;
  Done done_;
};

}  // namespace fovea
