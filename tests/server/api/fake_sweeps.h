// A runner of sweeps that does as a test says.
#pragma once

#include <utility>

#include "server/core/sweep.h"
#include "tests/server/api/fake_experiment.h"

namespace fovea {

class FakeSweeps final : public SweepRunner, public FakeExperiment<SweepRequest, Sweep> {
 public:
  void Sweep(SweepRequest request, CancellationPtr cancellation, ProgressListener progress,
             Done done) override {
    Keep(std::move(request), std::move(cancellation), std::move(progress), std::move(done));
  }

  // With a number in each kind of field, and a point that failed.
  static fovea::Sweep Example() {
    fovea::Sweep sweep{.id = "s1",
                       .axis = SweepAxis::kK,
                       .values = {"16", "32"},
                       .places = {16, 32},
                       .rounds = 20,
                       .batch_size = 2,
                       .threads = 4,
                       .device = "CPU"};
    SweptCurve& curve = sweep.curves.emplace_back();
    curve.model_name = "vit";
    curve.model_version = "1";
    curve.attention = "knn";
    curve.weights_of_attention = "dense";
    curve.points = {{.attention = "knn:k=16",
                     .compute_ms = {1, 2, 3},
                     .compute_estimate_ms = Estimate{2, 1.5, 2.5, 20},
                     .attention_ms = Quartiles{0.25, 0.5, 0.75},
                     .images_per_second = 1000,
                     .peak_bytes = int64_t{5} << 32,
                     .weight_bytes = 7,
                     .multiply_adds = 9},
                    {.failure = "65 keys are too few"}};
    curve.compute_exponent =
        FittedExponent{.exponent = {1.5, 1.25, 1.75, 0}, .points = 3, .worst_ratio = 1.125};
    return sweep;
  }
};

}  // namespace fovea
