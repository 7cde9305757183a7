// Winograd's F(2x2, 3x3) over a few tiles, which stay in the second-level cache: every tile of the
// input is transformed, [points, tiles, in]; then panel by panel of output channels each point is a
// matrix product with the panel's weights, [tiles, in] x [in, panel], and the tiles of the panel
// are transformed back. A vector is neighbouring channels throughout.
#include "kernels/vision/winograd3x3/cpu_tiles.h"

#include <cstdint>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vision/winograd3x3/cpu_tiles.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/isa.h"
#include "kernels/simd/multiply-inl.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using winograd3x3::Job;
using winograd3x3::kPanel;
using winograd3x3::kPoints;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
constexpr int64_t kLanes = HWY_TARGET == HWY_AVX3 ? 16 : 8;

// B^T d B: `in` the 16 places of a tile, to[point * point_stride].
HWY_INLINE void TransformInput(const float* const (&in)[4][4], int64_t channel, float* to,
                               int64_t point_stride) {
  const DF d;
  VF rows[4][4];
  for (int j = 0; j < 4; ++j) {
    const VF d0 = hn::LoadU(d, in[0][j] + channel), d1 = hn::LoadU(d, in[1][j] + channel);
    const VF d2 = hn::LoadU(d, in[2][j] + channel), d3 = hn::LoadU(d, in[3][j] + channel);
    rows[0][j] = hn::Sub(d0, d2);
    rows[1][j] = hn::Add(d1, d2);
    rows[2][j] = hn::Sub(d2, d1);
    rows[3][j] = hn::Sub(d1, d3);
  }
  for (int i = 0; i < 4; ++i) {
    float* const row = to + 4 * i * point_stride;
    hn::StoreU(hn::Sub(rows[i][0], rows[i][2]), d, row);
    hn::StoreU(hn::Add(rows[i][1], rows[i][2]), d, row + point_stride);
    hn::StoreU(hn::Sub(rows[i][2], rows[i][1]), d, row + 2 * point_stride);
    hn::StoreU(hn::Sub(rows[i][1], rows[i][3]), d, row + 3 * point_stride);
  }
}

void TransformTiles(const Job& job, const float* zeros, float* transformed, int64_t image,
                    int64_t first, int64_t count) {
  const float* const x = job.x + image * job.x_image;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t top = (first + t) / job.tile_columns * 2 - 1;
    const int64_t left = (first + t) % job.tile_columns * 2 - 1;
    const float* in[4][4];
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const int64_t row = top + i, column = left + j;
        const bool inside = row >= 0 && row < job.height && column >= 0 && column < job.width;
        in[i][j] = inside ? x + row * job.x_row + column * job.x_column : zeros;
      }
    }
    float* const to = transformed + t * job.in;
    for (int64_t c = 0; c < job.in; c += kLanes) {
      TransformInput(in, c, to + c, count * job.in);
    }
  }
}

// A^T m A and the bias, for one vector of output channels: `m` points to the tile's first point.
HWY_INLINE void TransformOutput(const float* m, int64_t point_stride, VF bias, VF (&out)[2][2]) {
  const DF d;
  VF rows[2][4];
  for (int j = 0; j < 4; ++j) {
    const VF m0 = hn::LoadU(d, m + j * point_stride);
    const VF m1 = hn::LoadU(d, m + (4 + j) * point_stride);
    const VF m2 = hn::LoadU(d, m + (8 + j) * point_stride);
    const VF m3 = hn::LoadU(d, m + (12 + j) * point_stride);
    rows[0][j] = hn::Add(hn::Add(m0, m1), m2);
    rows[1][j] = hn::Sub(hn::Sub(m1, m2), m3);
  }
  for (int i = 0; i < 2; ++i) {
    out[i][0] = hn::Add(hn::Add(hn::Add(rows[i][0], rows[i][1]), rows[i][2]), bias);
    out[i][1] = hn::Add(hn::Sub(hn::Sub(rows[i][1], rows[i][2]), rows[i][3]), bias);
  }
}

void StorePanel(const Job& job, const float* products, int64_t image, int64_t first, int64_t count,
                int64_t panel) {
  const DF d;
  float* const y = job.y + image * job.y_image;
  const int64_t begin = panel * kPanel;
  const int64_t channels = job.out - begin < kPanel ? job.out - begin : kPanel;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t top = (first + t) / job.tile_columns * 2;
    const int64_t left = (first + t) % job.tile_columns * 2;
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t left_over = channels - c;
      const bool whole = left_over >= kLanes;
      VF bias = hn::Zero(d);
      if (job.bias != nullptr) {
        bias = whole ? hn::LoadU(d, job.bias + begin + c)
                     : hn::MaskedLoad(hn::FirstN(d, left_over), d, job.bias + begin + c);
      }
      VF out[2][2];
      TransformOutput(products + t * kPanel + c, count * kPanel, bias, out);
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
          if (top + i >= job.height || left + j >= job.width) continue;
          float* const to = y + (top + i) * job.y_row + (left + j) * job.y_column + begin + c;
          if (whole) {
            hn::StoreU(out[i][j], d, to);
          } else {
            hn::BlendedStore(out[i][j], hn::FirstN(d, left_over), d, to);
          }
        }
      }
    }
  }
}

int64_t ScratchFloatsOf(const Job& job, int64_t tiles) {
  return job.in + kPoints * tiles * (job.in + kPanel);
}

void ConvolveTilesOf(const Job& job, float* scratch, int64_t image, int64_t first, int64_t count) {
  float* const zeros = scratch;
  float* const transformed = zeros + job.in;                       // [kPoints, count, in]
  float* const products = transformed + kPoints * count * job.in;  // [kPoints, count, kPanel]
  for (int64_t c = 0; c < job.in; ++c) zeros[c] = 0;
  TransformTiles(job, zeros, transformed, image, first, count);
  const int64_t panels = (job.out + kPanel - 1) / kPanel;
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (int64_t point = 0; point < kPoints; ++point) {
      Factors factors{};
      factors.a = transformed + point * count * job.in;
      factors.a_row = job.in;
      factors.a_depth = 1;
      factors.b = job.weights + (panel * kPoints + point) * job.in * kPanel;
      factors.b_row = kPanel;
      factors.depth = job.in;
      float* const to = products + point * count * kPanel;
      for (int64_t n = 0; n < kPanel; n += 2 * kLanes) {
        MultiplyRows<2>(factors, count, to + n, kPanel);
        factors.b += 2 * kLanes;
      }
    }
    StorePanel(job, products, image, first, count, panel);
  }
}

}  // namespace

int64_t ScratchFloats(const Job& job, int64_t tiles) { return ScratchFloatsOf(job, tiles); }

void ConvolveTiles(const Job& job, float* scratch, int64_t image, int64_t first, int64_t count) {
  ConvolveTilesOf(job, scratch, image, first, count);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::winograd3x3 {

int64_t ScratchFloats(const Job& job, int64_t tiles) {
  return FOVEA_SIMD_CHOOSE(ScratchFloats)(job, tiles);
}

void ConvolveTiles(const Job& job, float* scratch, int64_t image, int64_t first, int64_t count) {
  FOVEA_SIMD_CHOOSE(ConvolveTiles)(job, scratch, image, first, count);
}

}  // namespace fovea::kernels::winograd3x3
#endif  // HWY_ONCE
