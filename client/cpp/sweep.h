// Variants over a range of resolutions, batches, k and the like: what Client::Sweep takes and
// gives. Plain data; the fields are those of proto/fovea/v1/comparison.proto, which says what each
// means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/statistics.h"
#include "client/cpp/comparison.h"
#include "client/cpp/types.h"
#include "client/cpp/variant.h"

namespace fovea::client {

enum class SweepAxis { kResolution, kBatch, kK, kTemperature, kHeads, kThreads, kPrecision };

struct SweepRequest {
  std::vector<Variant> variants;  // one to eight, a curve each
  SweepAxis over = SweepAxis::kResolution;
  std::vector<std::string> values;  // one to 32
  // A picture file (JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF); empty: noise.
  std::string image;
  int rounds = 0;                                  // 0: 20
  absl::Duration max_time = absl::ZeroDuration();  // zero: five minutes
  int batch_size = 0;                              // 0: one image
  int threads = 0;                                 // 0: all of the server's for models
};

struct SweptPoint {
  std::string failure;  // why it was not measured; what follows is empty then
  std::string attention;
  Quartiles compute_ms;
  std::optional<Estimate> compute_estimate_ms;  // none: fewer than 20 rounds
  std::optional<Quartiles> attention_ms;        // none: the model has no attention, or...
  bool attention_left_out = false;              // ...what was measured contradicts `compute_ms`
  double images_per_second = 0;
  int64_t peak_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t multiply_adds = 0;  // 0: not counted
};

struct FittedExponent {
  Estimate exponent;
  int points = 0;
  double worst_ratio = 1;  // by which a point lies above or below the line
};

struct SweptCurve {
  ModelId model;
  std::string backbone;
  std::string attention;
  std::string weights_of_attention;  // empty: no point's attention is another one
  bool untrained = false;
  std::vector<SweptPoint> points;  // one for each value
  std::optional<FittedExponent> compute_exponent;
  std::optional<FittedExponent> attention_exponent;
  std::optional<FittedExponent> peak_exponent;
};

struct Sweep {
  SweepAxis over = SweepAxis::kResolution;
  std::vector<std::string> values;
  std::vector<double> places;  // one for each value; empty: values are no numbers
  std::vector<SweptCurve> curves;
  int rounds = 0;
  int batch_size = 1;
  int threads = 1;
  std::string device;
  Provenance measured;  // empty: no point could be measured
};

}  // namespace fovea::client
