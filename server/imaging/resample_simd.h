// The two inner loops of Resample, dispatched to the best instruction set of the machine. Only for
// resample.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/imaging/resample_weights.h"

namespace fovea {

// Rows are read and written in whole vectors: so many bytes past a row's last pixel must exist, of
// any value.
inline constexpr size_t kRowPadding = 64;

// So many rows are filtered together: each weight is loaded once for all of them.
inline constexpr int kRowsTogether = 4;

// AxisWeights laid out for the filter along rows.
struct AcrossWeights {
  struct Range {
    int64_t start, first_weight, count;
  };
  std::vector<Range> outputs;
  // Each weight four times, one for each byte of a padded pixel, and zeros up to four pixels.
  std::vector<int32_t> weights;

  explicit AcrossWeights(const AxisWeights& axis);
};

// out[r] = rows[r] filtered along x, for each of kRowsTogether rows; writes 3 bytes for each output
// of `weights`.
void FilterAcross(const uint8_t* const rows[kRowsTogether], const AcrossWeights& weights,
                  uint8_t* const out[kRowsTogether]);

// out[i] = sum over t < taps of weights[t] * rows[t][i], rounded to 8 bits, for i < bytes. Needs no
// padding.
void FilterDown(const uint8_t* const* rows, const int32_t* weights, int64_t taps, size_t bytes,
                uint8_t* out);

}  // namespace fovea
