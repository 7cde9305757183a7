// RP-CPE on the CPU, plane by plane: a depth-wise 3x3 convolution with the merged branches.
//
// Rows are copied, widened, to scratch with a zero between one row's end and the next one's
// beginning. There all outputs of those rows are one long one-dimensional convolution with nine
// taps, whatever the width: no edges, no tails. What is computed at the zeros is not copied back.
#include <cstdint>

#include "kernels/simd/targets.h"
#include "kernels/vision/rp_cpe/cpu_convolve.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vision/rp_cpe/cpu_planes.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/gelu-inl.h"
#include "kernels/simd/isa.h"
#include "kernels/vision/rp_cpe/branches-inl.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

// Planes in scratch: all of a few small ones, or a few rows of a large one.
struct Tile {
  int64_t pitch;  // of a row: the zero behind it included
  int64_t rows;   // of outputs; two more of inputs
  int64_t planes;

  int64_t InFloats() const { return (rows + 2) * pitch; }
  int64_t OutFloats() const { return (rows * pitch + kLanes - 1) / kLanes * kLanes; }
};

// What fits in half of a first-level cache.
Tile TileOf(const Job& job) {
  constexpr int64_t kFloats = 4096;
  Tile tile{job.width + 1, kFloats / (job.width + 1) - 2, 1};
  if (tile.rows < 1) tile.rows = 1;
  if (tile.rows < job.height) return tile;
  tile.rows = job.height;
  tile.planes = kFloats / tile.InFloats();
  if (tile.planes < 1) tile.planes = 1;
  return tile;
}

template <class D>
void Convert(D d, const float* from, float* to) {
  hn::StoreU(hn::LoadU(d, from), d, to);
}
template <class D>
void Convert(D d, const uint16_t* from, float* to) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> dh;
  hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, from)))), d, to);
}
template <class D>
void Convert(D d, const float* from, uint16_t* to) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> dh;
  const auto bits = hn::ShiftRight<16>(RoundToBf16(d, hn::LoadU(d, from)));
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, bits)), dh, to);
}

// The last vector ends with the row, and may overlap the one before.
template <int kCount, class From, class To>
void ConvertRowBy(const From* from, int64_t count, To* to) {
  const hn::CappedTag<float, kCount> d;
  int64_t i = 0;
  for (; i + kCount <= count; i += kCount) Convert(d, from + i, to + i);
  if (i < count) Convert(d, from + count - kCount, to + count - kCount);
}

template <class From, class To>
void ConvertRow(const From* from, int64_t count, To* to) {
  if (count >= kLanes) return ConvertRowBy<kLanes>(from, count, to);
  if (count >= 8) return ConvertRowBy<8>(from, count, to);
  if (count >= 4) return ConvertRowBy<4>(from, count, to);
  ConvertRowBy<1>(from, count, to);
}

// Rows [first - 1, first + rows] of a plane, zeros outside.
template <class T>
void LoadPlane(const Job& job, int64_t index, int64_t first, int64_t rows, int64_t pitch,
               float* to) {
  const T* from = static_cast<const T*>(job.x.data) + index / job.channels * job.x.batch +
                  index % job.channels * job.x.channel;
  for (int64_t row = first - 1; row <= first + rows; ++row, to += pitch) {
    if (row >= 0 && row < job.height) {
      ConvertRow(from + row * job.x.row, job.width, to);
    } else {
      for (int64_t i = 0; i < job.width; ++i) to[i] = 0.0f;
    }
  }
}

// `count` outputs from rows that begin with `in`, which is preceded by a zero.
template <bool kGelu>
void ConvolvePlane(const float* in, int64_t pitch, const float* factors, int64_t count,
                   float* out) {
  const DF d;
  VF taps[kTaps];
  HWY_UNROLL(9)
  for (int i = 0; i < kTaps; ++i) taps[i] = hn::Set(d, factors[i]);
  const VF bias = hn::Set(d, factors[kTaps]);
  for (int64_t i = 0; i < count; i += kLanes) {
    VF sum = bias;
    HWY_UNROLL(9)
    for (int t = 0; t < kTaps; ++t) {
      sum = hn::MulAdd(hn::LoadU(d, in + i + t / 3 * pitch + t % 3 - 1), taps[t], sum);
    }
    hn::StoreU(kGelu ? Gelu(d, sum) : sum, d, out + i);
  }
}

template <class T>
void StorePlane(const Job& job, int64_t index, int64_t first, int64_t rows, int64_t pitch,
                const float* from) {
  T* to = static_cast<T*>(job.y.data) + index / job.channels * job.y.batch +
          index % job.channels * job.y.channel;
  for (int64_t row = first; row < first + rows; ++row, from += pitch) {
    ConvertRow(from, job.width, to + row * job.y.row);
  }
}

template <class T>
void ConvolvePlanesOf(const Job& job, float* scratch, int64_t begin, int64_t end) {
  const Tile tile = TileOf(job);
  // A zero in front of the first row; what the last vector reads behind the last one.
  const int64_t in_floats = 1 + tile.planes * tile.InFloats() + 1 + kLanes;
  for (int64_t i = 0; i < in_floats; ++i) scratch[i] = 0.0f;
  float* const in = scratch + 1;
  float* const out = scratch + in_floats;
  const auto convolve = job.gelu ? &ConvolvePlane<true> : &ConvolvePlane<false>;
  for (int64_t index = begin; index < end; index += tile.planes) {
    const int64_t planes = end - index < tile.planes ? end - index : tile.planes;
    for (int64_t first = 0; first < job.height; first += tile.rows) {
      const int64_t left = job.height - first;
      const int64_t rows = left < tile.rows ? left : tile.rows;
      // One after the other for all planes: what was just stored is slow to load across rows.
      for (int64_t p = 0; p < planes; ++p) {
        LoadPlane<T>(job, index + p, first, rows, tile.pitch, in + p * tile.InFloats());
      }
      for (int64_t p = 0; p < planes; ++p) {
        convolve(in + p * tile.InFloats(), tile.pitch,
                 job.merged + (index + p) % job.channels * kFactors, rows * tile.pitch,
                 out + p * tile.OutFloats());
      }
      for (int64_t p = 0; p < planes; ++p) {
        StorePlane<T>(job, index + p, first, rows, tile.pitch, out + p * tile.OutFloats());
      }
    }
  }
}

}  // namespace

void MergeChannels(const Job& job, int64_t begin, int64_t end) {
  constexpr int64_t kAtATime = 16;
  for (int64_t first = begin; first < end; first += kAtATime) {
    const int64_t channels = end - first < kAtATime ? end - first : kAtATime;
    float weights[kAtATime * kTaps];
    float biases[kAtATime];
    AddBranches(job, job.weights, kTaps, first, channels, weights);
    AddBranches(job, job.biases, 1, first, channels, biases);
    for (int64_t c = 0; c < channels; ++c) {
      float* factors = job.merged + (first + c) * kFactors;
      for (int64_t t = 0; t < kTaps; ++t) factors[t] = weights[c * kTaps + t];
      factors[kTaps / 2] += 1.0f;
      factors[kTaps] = biases[c];
    }
  }
}

int64_t PlaneScratchFloats(const Job& job) {
  const Tile tile = TileOf(job);
  return tile.planes * (tile.InFloats() + tile.OutFloats()) + 2 + kLanes;
}

void ConvolvePlanes(const Job& job, float* scratch, int64_t begin, int64_t end) {
  (job.bf16 ? &ConvolvePlanesOf<uint16_t> : &ConvolvePlanesOf<float>)(job, scratch, begin, end);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::rp_cpe {

void MergeChannels(const Job& job, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(MergeChannels)(job, begin, end);
}

int64_t PlaneScratchFloats(const Job& job) { return FOVEA_SIMD_CHOOSE(PlaneScratchFloats)(job); }

void ConvolvePlanes(const Job& job, float* scratch, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(ConvolvePlanes)(job, scratch, begin, end);
}

}  // namespace fovea::kernels::rp_cpe
#endif  // HWY_ONCE
