// A runner of comparisons that does as a test says.
#pragma once

#include <utility>

#include "server/core/comparison.h"
#include "tests/server/api/fake_experiment.h"

namespace fovea {

class FakeComparisons final : public ComparisonRunner,
                              public FakeExperiment<CompareRequest, Comparison> {
 public:
  void Compare(CompareRequest request, CancellationPtr cancellation, ProgressListener progress,
               Done done) override {
    Keep(std::move(request), std::move(cancellation), std::move(progress), std::move(done));
  }

  // With a number in each kind of field.
  static Comparison Example() {
    Comparison comparison{.id = "c1", .rounds = 30, .batch_size = 2, .threads = 4, .device = "CPU"};
    comparison.images = {{.size = {48, 64}}};
    ComparedVariant baseline{.model_name = "vit", .model_version = "1", .attention = "dense"};
    baseline.compute.ms = {1, 2, 3};
    baseline.answers = {{.label = "cat", .confidence = 0.5}};
    ComparedVariant other = baseline;
    other.attention = "knn:k=3";
    other.weights_of_attention = "dense";
    other.compute.ratio = Estimate{1.5, 1.25, 1.75, 50};
    other.compute.verdict = Verdict::kWide;
    other.agreement = ClassAgreement{.images = 1, .same_top1 = 1, .kl_divergence = 0.25};
    comparison.variants = {baseline, other};
    return comparison;
  }
};

}  // namespace fovea
