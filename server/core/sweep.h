// Variants of models over a range of resolutions, batches, k and the like: what is asked for, and
// what comes out. Plain data, and the interface that runs it; the fields are those of
// proto/fovea/v1/comparison.proto, which says what each means.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/statistics.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/comparison.h"
#include "server/core/comparison_progress.h"
#include "server/core/variant.h"

namespace fovea {

enum class SweepAxis { kResolution, kBatch, kK, kTemperature, kHeads, kThreads, kPrecision };

struct SweepRequest {
  std::vector<Variant> variants;  // a curve each
  SweepAxis axis = SweepAxis::kResolution;
  std::vector<std::string> values;
  std::string image;  // empty: noise
  std::string id;
  int rounds = 20;
  Nanos max_time = 300 * kSecond;
  int batch_size = 1;
  int threads = 0;  // 0: all
};

struct SweptPoint {
  std::string failure;    // why it was not measured; what follows is empty then
  std::string attention;  // canonical text
  Quartiles compute_ms;
  std::optional<Estimate> compute_estimate_ms;  // none: fewer than kLeastSeries rounds
  std::optional<Quartiles> attention_ms;        // none: it has no attention, or...
  bool attention_left_out = false;              // ...what was measured contradicts `compute_ms`
  double images_per_second = 0;
  int64_t peak_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t multiply_adds = 0;  // 0: not counted
};

struct FittedExponent {
  Estimate exponent;  // between minus and plus infinity: too few rounds for an interval
  int points = 0;
  double worst_ratio = 1;
};

struct SweptCurve {
  std::string model_name;
  std::string model_version;
  std::string backbone;
  std::string attention;             // as it was asked for; the model's own if none was
  std::string weights_of_attention;  // empty: no point's attention is another one
  bool untrained = false;
  std::vector<SweptPoint> points;  // one for each value
  // None: the axis has no exponent, or fewer than three points were measured.
  std::optional<FittedExponent> compute_exponent;
  std::optional<FittedExponent> attention_exponent;
  std::optional<FittedExponent> peak_exponent;
};

struct Sweep {
  std::string id;
  SweepAxis axis = SweepAxis::kResolution;
  std::vector<std::string> values;
  std::vector<double> places;  // of the values on the axis; empty: its values are no numbers
  std::vector<SweptCurve> curves;
  int rounds = 0;
  int batch_size = 1;
  int threads = 1;
  std::string device;
  Provenance measured;  // empty: no point could be measured
};

// Thread-safe.
class SweepRunner {
 public:
  virtual ~SweepRunner() = default;

  using Done = std::function<void(absl::StatusOr<fovea::Sweep>)>;
  // As ComparisonRunner::Compare; errors as ComparisonService.Sweep's.
  virtual void Sweep(SweepRequest request, CancellationPtr cancellation, ProgressListener progress,
                     Done done) = 0;
};

}  // namespace fovea
