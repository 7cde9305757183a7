// RP-CPE on the CPU, channels-last: a depth-wise 3x3 convolution with the merged branches.
//
// A vector is neighbouring channels, and up to eight neighbouring outputs of a row are summed in
// registers, so that each input vector is loaded once per row of taps and used up to three times.
// The outer loops follow the memory: rows, then places in a row, then channels. A group of channels
// is so narrow that three rows of it stay in the second-level cache.
//
// bf16: a word holds two channels. The even ones and the odd ones are a vector each, which costs a
// shift and a mask where widening would shuffle; their factors are stored likewise.
#include <cstdint>

#include "kernels/simd/targets.h"
#include "kernels/vision/rp_cpe/cpu_convolve.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vision/rp_cpe/cpu_channels_last.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/gelu-inl.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/transpose-inl.h"
#include "kernels/vision/rp_cpe/branches-inl.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using rp_cpe::Map;

// A vector of channels, or two where a word holds two.
template <class T>
struct Channels;

template <>
struct Channels<float> {
  static constexpr int64_t kCount = kLanes;
  VF all;

  static HWY_INLINE Channels Load(const float* from) { return {hn::LoadU(DF(), from)}; }
  static HWY_INLINE Channels LoadFactors(const float* from) { return Load(from); }
  HWY_INLINE void AddProduct(const Channels& a, const Channels& b) {
    all = hn::MulAdd(a.all, b.all, all);
  }
  HWY_INLINE Channels AfterGelu() const { return {Gelu(DF(), all)}; }
  HWY_INLINE void Store(float* to) const { hn::StoreU(all, DF(), to); }
};

template <>
struct Channels<uint16_t> {
  static constexpr int64_t kCount = 2 * kLanes;
  VF even, odd;

  static HWY_INLINE Channels Load(const uint16_t* from) {
    const DU d;
    const auto words = hn::BitCast(d, hn::LoadU(hn::Repartition<uint16_t, DU>(), from));
    return {hn::BitCast(DF(), hn::ShiftLeft<16>(words)),
            hn::BitCast(DF(), hn::And(words, hn::Set(d, 0xFFFF0000u)))};
  }
  static HWY_INLINE Channels LoadFactors(const float* from) {
    return {hn::LoadU(DF(), from), hn::LoadU(DF(), from + kLanes)};
  }
  HWY_INLINE void AddProduct(const Channels& a, const Channels& b) {
    even = hn::MulAdd(a.even, b.even, even);
    odd = hn::MulAdd(a.odd, b.odd, odd);
  }
  HWY_INLINE Channels AfterGelu() const {
    return {GeluForBf16(DF(), even), GeluForBf16(DF(), odd)};
  }
  HWY_INLINE void Store(uint16_t* to) const {
    const auto words = PairBf16(RoundToBf16(DF(), even), RoundToBf16(DF(), odd));
    const hn::Repartition<uint16_t, DU> dh;
    hn::StoreU(hn::BitCast(dh, words), dh, to);
  }
};

// Neighbouring outputs of a row, and the group of channels to compute of them.
struct Strip {
  const Map& x;
  const Map& y;
  int64_t x_first, y_first;        // elements from the maps' beginnings to the first output's place
  bool above, below, left, right;  // whether there are neighbours
  int64_t channels, block, blocks;  // of the map; first and last + 1 of the group's
  const float* merged;
};

template <class T, bool kGelu, int kOutputs>
void ConvolveStrip(const Strip& strip) {
  using Vector = Channels<T>;
  constexpr int64_t kBlock = Vector::kCount;
  const int64_t column = strip.x.column;
  const T* const x = static_cast<const T*>(strip.x.data) + strip.x_first;
  T* const y = static_cast<T*>(strip.y.data) + strip.y_first;
  const int first_row = strip.above ? 0 : 1;
  const int last_row = strip.below ? 2 : 1;
  for (int64_t block = strip.block; block < strip.blocks; ++block) {
    const int64_t last = strip.channels - kBlock;
    const int64_t channel = block * kBlock < last ? block * kBlock : last;
    const float* factors = strip.merged + block * kFactors * kBlock;
    const Vector bias = Vector::LoadFactors(factors + kTaps * kBlock);
    Vector sum[kOutputs];
    HWY_UNROLL(8)
    for (int i = 0; i < kOutputs; ++i) sum[i] = bias;
    for (int row = first_row; row <= last_row; ++row) {
      const Vector tap0 = Vector::LoadFactors(factors + (3 * row) * kBlock);
      const Vector tap1 = Vector::LoadFactors(factors + (3 * row + 1) * kBlock);
      const Vector tap2 = Vector::LoadFactors(factors + (3 * row + 2) * kBlock);
      const T* from = x + (row - 1) * strip.x.row + channel;
      if (strip.left) sum[0].AddProduct(Vector::Load(from - column), tap0);
      HWY_UNROLL(8)
      for (int i = 0; i < kOutputs; ++i, from += column) {
        const Vector in = Vector::Load(from);
        if (i > 0) sum[i - 1].AddProduct(in, tap2);
        sum[i].AddProduct(in, tap1);
        if (i + 1 < kOutputs) sum[i + 1].AddProduct(in, tap0);
      }
      if (strip.right) sum[kOutputs - 1].AddProduct(Vector::Load(from), tap2);
    }
    T* to = y + channel;
    HWY_UNROLL(8)
    for (int i = 0; i < kOutputs; ++i, to += strip.y.column) {
      (kGelu ? sum[i].AfterGelu() : sum[i]).Store(to);
    }
  }
}

// As many outputs as sums, taps and an input fit in the registers.
template <class T>
constexpr int64_t MostOutputs() {
  return sizeof(T) == 2 && HWY_TARGET == HWY_AVX2 ? 4 : 8;
}

template <class T, bool kGelu>
void ConvolveStripOf(int64_t outputs, const Strip& strip) {
  switch (outputs) {
    case 1:
      return ConvolveStrip<T, kGelu, 1>(strip);
    case 2:
      return ConvolveStrip<T, kGelu, 2>(strip);
    case 3:
      return ConvolveStrip<T, kGelu, 3>(strip);
    case 4:
      return ConvolveStrip<T, kGelu, 4>(strip);
    default:
      break;
  }
  if constexpr (MostOutputs<T>() == 8) {
    switch (outputs) {
      case 5:
        return ConvolveStrip<T, kGelu, 5>(strip);
      case 6:
        return ConvolveStrip<T, kGelu, 6>(strip);
      case 7:
        return ConvolveStrip<T, kGelu, 7>(strip);
      default:
        return ConvolveStrip<T, kGelu, 8>(strip);
    }
  }
}

template <class T, bool kGelu>
void ConvolveRowsOf(const Job& job, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = Channels<T>::kCount;
  const int64_t blocks = (job.channels + kBlock - 1) / kBlock;
  const int64_t strips = (job.width + MostOutputs<T>() - 1) / MostOutputs<T>();
  for (int64_t index = begin; index < end; ++index) {
    const int64_t row = index % job.height;
    const int64_t group = index / job.height % job.groups;
    const int64_t batch = index / job.height / job.groups;
    Strip strip{job.x, job.y};
    strip.above = row > 0;
    strip.below = row + 1 < job.height;
    strip.channels = job.channels;
    strip.block = group * blocks / job.groups;
    strip.blocks = (group + 1) * blocks / job.groups;
    strip.merged = job.merged;
    for (int64_t i = 0; i < strips; ++i) {
      const int64_t first = i * job.width / strips;
      const int64_t past = (i + 1) * job.width / strips;
      strip.left = first > 0;
      strip.right = past < job.width;
      strip.x_first = batch * job.x.batch + row * job.x.row + first * job.x.column;
      strip.y_first = batch * job.y.batch + row * job.y.row + first * job.y.column;
      ConvolveStripOf<T, kGelu>(past - first, strip);
    }
  }
}

}  // namespace

int64_t BlockChannels(bool bf16) {
  return bf16 ? Channels<uint16_t>::kCount : Channels<float>::kCount;
}

void MergeBlocks(const Job& job, int64_t begin, int64_t end) {
  const DF d;
  const int64_t channels = BlockChannels(job.bf16);
  for (int64_t block = begin; block < end; ++block) {
    const int64_t last = job.channels - channels;
    const int64_t first = block * channels < last ? block * channels : last;
    float* factors = job.merged + block * kFactors * channels;
    alignas(64) float sum[kTaps * 2 * kLanes];
    AddBranches(job, job.weights, kTaps, first, channels, sum);
    Transpose32(reinterpret_cast<const uint32_t*>(sum), kTaps, channels, kTaps,
                reinterpret_cast<uint32_t*>(factors), channels);
    AddBranches(job, job.biases, 1, first, channels, factors + kTaps * channels);
    float* centre = factors + kTaps / 2 * channels;
    for (int64_t i = 0; i < channels; i += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, centre + i), hn::Set(d, 1.0f)), d, centre + i);
    }
    if (!job.bf16) continue;
    for (int64_t i = 0; i < kFactors; ++i, factors += channels) {
      const VF low = hn::LoadU(d, factors);
      const VF high = hn::LoadU(d, factors + kLanes);
      hn::StoreU(hn::ConcatEven(d, high, low), d, factors);
      hn::StoreU(hn::ConcatOdd(d, high, low), d, factors + kLanes);
    }
  }
}

void ConvolveRows(const Job& job, int64_t begin, int64_t end) {
  if (job.gelu) {
    (job.bf16 ? &ConvolveRowsOf<uint16_t, true> : &ConvolveRowsOf<float, true>)(job, begin, end);
  } else {
    (job.bf16 ? &ConvolveRowsOf<uint16_t, false> : &ConvolveRowsOf<float, false>)(job, begin, end);
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::rp_cpe {

int64_t BlockChannels(bool bf16) { return FOVEA_SIMD_CHOOSE(BlockChannels)(bf16); }

void MergeBlocks(const Job& job, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(MergeBlocks)(job, begin, end);
}

void ConvolveRows(const Job& job, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(ConvolveRows)(job, begin, end);
}

}  // namespace fovea::kernels::rp_cpe
#endif  // HWY_ONCE
