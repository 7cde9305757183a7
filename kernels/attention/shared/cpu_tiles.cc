// Attention on AMX's tiles, a block of 32 queries of a head at a time.
//
// Queries are rows as they lie; a head's keys are transposed and its values paired once, as the
// tiles' columns. The logits of a block and all keys are rows of fp32. While a tile of them is
// multiplied, the largest of the one before are found; while weights multiply values, the next ones
// are made. fp32 is multiplied as the sum of three bf16, six of whose nine products are taken
// (kernels/linear/README.md), the small ones first: what is added to them later rounds them no
// more.
#include "kernels/attention/shared/cpu_tiles.h"

#include <cstdint>
#include <limits>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/shared/cpu_tiles.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/shared/cpu_tile_operands-inl.h"
#include "kernels/attention/shared/cpu_tiles_nearest-inl.h"
#include "kernels/attention/shared/cpu_token_sets-inl.h"
#include "kernels/attention/shared/cpu_weights-inl.h"
#include "kernels/simd/amx_tile-inl.h"
#include "kernels/simd/gemm.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

// Of a tile, in parts `plane` elements apart: rows, and columns whose steps of the depth are `step`
// and whose registers are `across` apart.
struct TileRows {
  const uint16_t* data;
  int64_t stride;
  int64_t plane;
};
struct TileColumns {
  const uint16_t* data;
  int64_t step;
  int64_t across;
  int64_t plane;
};

// products [32, 32], rows `stride` apart, = or += rows * columns; between() after each step.
template <int kParts, class Shape, class Between>
HWY_INLINE void MultiplyTile(const TileRows& rows, const TileColumns& columns, int64_t depth,
                             bool accumulate, float* products, int64_t stride,
                             const Between& between) {
  if (accumulate) {
    LoadProducts<Shape>(products, stride);
  } else {
    ZeroProducts();
  }
  // Pairs of parts, the products of small ones first.
  constexpr int kPairs = kParts == 1 ? 1 : 6;
  constexpr int kOfRows[] = {kParts - 1, 1, 0, 0, 1, 0}, kOfColumns[] = {0, 1, 2, 1, 0, 0};
  for (int pair = 0; pair < kPairs; ++pair) {
    const uint16_t* a = rows.data + kOfRows[pair] * rows.plane;
    const uint16_t* b = columns.data + kOfColumns[pair] * columns.plane;
    for (int64_t k = 0; k < depth; k += kStep, a += kStep, b += columns.step) {
      LoadRows<Shape>(a, rows.stride);
      LoadColumns<Shape>(b, columns.across);
      AddProducts<Shape>();
      between();
    }
  }
  StoreProducts<Shape>(products, stride);
}

// The tile at the edge of `height` rows and `width` columns may be one register high or wide.
template <int kParts, class Between>
HWY_INLINE void MultiplyTileUpTo(int64_t height, int64_t width, const TileRows& rows,
                                 const TileColumns& columns, int64_t depth, bool accumulate,
                                 float* products, int64_t stride, const Between& between) {
  WithTileShape(height, width, [&](auto shape) FOVEA_TILE_ATTR {
    MultiplyTile<kParts, decltype(shape)>(rows, columns, depth, accumulate, products, stride,
                                          between);
  });
}

// How logits become exponents of two.
enum class Exponents {
  kBelowLargest,  // (s - the row's largest) * factor
  kBelowLimit,    // s * factor - kLimit: where no s * factor is larger than that, up or down
};

// A logit of bf16 tensors that is no further from zero needs not be seen beside the largest of its
// row: weights between 2^-64 and 1 are as exact, and their sums stay in range.
inline constexpr float kLimit = 32.0f;

// A block of queries and what it knows between its steps.
template <class T>
class TilesBlock {
 public:
  static constexpr int kParts = sizeof(T) == 4 ? 3 : 1;
  static constexpr int64_t kPairs = kParts == 1 ? 1 : 6;  // of parts that are multiplied
  static constexpr int64_t kChunk = attend::TilesChunk(kParts);

  HWY_INLINE TilesBlock(const TokenSetsJob& job, const TilesLayout& layout, const Block& block,
                        char* scratch)
      : job_(job),
        layout_(layout),
        rows_(block.rows),
        width_(block.width),
        logits_(At<float>(scratch, layout.logits)),
        largest_(At<float>(scratch, layout.largest)),
        sums_(At<float>(scratch, layout.sums)),
        output_(At<float>(scratch, layout.output)),
        columns_(At<float>(scratch, layout.bytes)),
        query_(At<uint16_t>(scratch, layout.query)),
        key_(At<uint16_t>(scratch, layout.key)),
        value_(At<uint16_t>(scratch, layout.value)),
        weights_(At<uint16_t>(scratch, layout.weights)),
        bias_(job.bias != nullptr ? BiasOf(job, block) : nullptr),
        plain_(job.bias == nullptr && job.scale <= 1.0f && job.scale >= 0x1p-64f),
        factor_(kLog2E * (plain_ ? job.scale : 1.0f)) {}

  // From the rows of queries to those of the output. `key` and `value`: the head's, where there is
  // an infinity in them, which has no parts.
  HWY_INLINE void Attend(const T* query, const T* key, const T* value, bool infinite, T* output) {
    infinite |= TakeRows(query, job_.query.token, rows_, job_.dim, width_, layout_, query_);
    simd::TileFence();
    if constexpr (kParts == 3) {
      if (HWY_UNLIKELY(infinite)) return AttendWhole(query, key, value, output);
    }
    if (kParts == 1 && plain_ && AttendBelowLimit()) return StoreRows(output);
    for (int64_t k = 0; k < job_.keys; k += kSide) MultiplyByKeys(k, []() HWY_ATTR {});
    HideColumnsPastKeys();
    FindLargest();
    MultiplyByValues([&](int64_t row, int64_t key, uint16_t* to)
                         HWY_ATTR { MakeWeights<Exponents::kBelowLargest>(row, key, to); });
    StoreRows(output);
  }

  // The same of the keys that are selected.
  HWY_INLINE void AttendNearest(const knn::Selection& selection, const T* query, const T* key,
                                const T* value, bool infinite, T* output) {
    infinite |= TakeRows(query, job_.query.token, rows_, job_.dim, width_, layout_, query_);
    simd::TileFence();
    if constexpr (kParts == 3) {
      if (HWY_UNLIKELY(infinite)) {
        MultiplyWhole(query, key);
        SelectWeights(selection);
        MixWhole(value);
        return StoreRows(output);
      }
    }
    for (int64_t k = 0; k < job_.keys; k += kSide) MultiplyByKeys(k, []() HWY_ATTR {});
    SelectWeights(selection);
    MultiplyByValues([&](int64_t row, int64_t first, uint16_t* to)
                         HWY_ATTR { TakeWeights(row, first, to); });
    StoreRows(output);
  }

 private:
  static constexpr float kLog2E = 1.44269504f;

  template <class Element>
  static HWY_INLINE Element* At(char* scratch, int64_t place) {
    return reinterpret_cast<Element*>(scratch + place);
  }

  // Chunk by chunk: while its weights are made, the next one's logits are multiplied, and the
  // weights of the one before with their values. False where a logit is beyond the limit: nothing
  // is done then.
  HWY_INLINE bool AttendBelowLimit() {
    const DF d;
    for (int64_t r = 0; r < rows_; ++r) hn::Store(hn::Zero(d), d, sums_ + r * kLanes);
    farthest_ = hn::Zero(d);
    const auto multiply_chunk = [&](int64_t key, const auto& between) HWY_ATTR {
      for (int64_t k = key; k < key + kChunk && k < job_.keys; k += kSide) {
        MultiplyByKeys(k, between);
      }
      if (key + kChunk >= job_.keys) HideColumnsPastKeys();
    };
    multiply_chunk(0, []() HWY_ATTR {});
    uint16_t* made = weights_;
    uint16_t* used = weights_ + kParts * layout_.weights_plane;
    for (int64_t key = 0; key < job_.keys; key += kChunk) {
      const int64_t steps = layout_.depth / kStep;
      const bool first = key == 0, last = key + kChunk >= job_.keys;
      const int64_t pauses =
          (last ? 0 : kChunk / kSide * steps) +
          (first ? 0 : (layout_.value_depth + kSide - 1) / kSide * kChunk / kStep);
      const int64_t per_pause = pauses == 0 ? 0 : (rows_ + pauses - 1) / pauses;
      int64_t next = 0;
      const auto make = [&](int64_t end) HWY_ATTR {
        for (; next < end && next < rows_; ++next) {
          MakeWeights<Exponents::kBelowLimit>(next, key, made);
        }
      };
      const auto between = [&]() HWY_ATTR { make(next + per_pause); };
      if (!last) multiply_chunk(key + kChunk, between);
      if (!first) AddValues(key - kChunk, used, between);
      make(rows_);
      simd::TileFence();
      uint16_t* const swapped = made;
      made = used;
      used = swapped;
    }
    AddValues((job_.keys - 1) / kChunk * kChunk, used, []() HWY_ATTR {});
    return hn::AllTrue(d, hn::Le(hn::Mul(farthest_, hn::Set(d, factor_)), hn::Set(d, kLimit)));
  }

  // The same without parts, one product after the other.
  HWY_NOINLINE void AttendWhole(const float* query, const float* key, const float* value,
                                float* output) {
    const DF d;
    MultiplyWhole(query, key);
    HideColumnsPastKeys();
    FindLargest();
    for (int64_t r = 0; r < rows_; ++r) {
      float* const logits = logits_ + r * layout_.logits_stride;
      const VF largest = hn::Load(d, largest_ + r * kLanes);
      VF sum = hn::Zero(d), unused = sum;
      for (int64_t j = 0; j < layout_.keys; j += kLanes) {
        const VF weight = Weight<Exponents::kBelowLargest>(hn::Load(d, logits + j), largest,
                                                           hn::Set(d, factor_), unused);
        sum = hn::Add(sum, weight);
        hn::Store(weight, d, logits + j);
      }
      hn::Store(sum, d, sums_ + r * kLanes);
    }
    MixWhole(value);
    StoreRows(output);
  }

  HWY_NOINLINE void MultiplyWhole(const float* query, const float* key) {
    const DF d;
    for (int64_t r = 0; r < width_; ++r) {
      for (int64_t j = 0; j < job_.keys; ++j) {
        VF sum = hn::Zero(d);
        for (int64_t c = 0; c < job_.dim && r < rows_; c += kLanes) {
          sum = hn::MulAdd(LoadLanes(query + r * job_.query.token + c, job_.dim - c),
                           LoadLanes(key + j * job_.key.token + c, job_.dim - c), sum);
        }
        logits_[r * layout_.logits_stride + j] = hn::GetLane(hn::SumOfLanes(d, sum));
      }
    }
  }

  HWY_NOINLINE void MixWhole(const float* value) {
    const DF d;
    for (int64_t r = 0; r < rows_; ++r) {
      const float* const weights = logits_ + r * layout_.logits_stride;
      float* const out = output_ + r * layout_.output_stride;
      for (int64_t c = 0; c < layout_.value_depth; c += kLanes) {
        VF mixed = hn::Zero(d);
        for (int64_t j = 0; j < job_.keys; ++j) {
          mixed =
              hn::MulAdd(hn::Set(d, weights[j]),
                         LoadLanes(value + j * job_.value.token + c, job_.value_dim - c), mixed);
        }
        hn::Store(mixed, d, out + c);
      }
    }
  }

  // The products of all rows with keys [key, key + 32).
  template <class Between>
  HWY_INLINE void MultiplyByKeys(int64_t key, const Between& between) {
    const TileRows rows = {query_, layout_.query_stride, layout_.query_plane};
    const TileColumns columns = {key_ + key * layout_.depth, simd::kRegisterElements,
                                 kRegister * layout_.depth, layout_.key_plane};
    MultiplyTileUpTo<kParts>(width_, job_.keys - key, rows, columns, layout_.depth,
                             /*accumulate=*/false, logits_ + key, layout_.logits_stride, between);
  }

  // Logits past the last key become -inf.
  HWY_INLINE void HideColumnsPastKeys() {
    const DF d;
    const VF hidden = hn::Set(d, -kInfinity);
    const int64_t whole = job_.keys / kLanes * kLanes;
    for (int64_t r = 0; r < rows_ && job_.keys < layout_.keys; ++r) {
      float* const logits = logits_ + r * layout_.logits_stride;
      const VF s = hn::Load(d, logits + whole);
      const MF real = hn::FirstN(d, static_cast<size_t>(job_.keys - whole));
      hn::Store(hn::IfThenElse(real, s, hidden), d, logits + whole);
      if (whole + kLanes < layout_.keys) hn::Store(hidden, d, logits + whole + kLanes);
    }
  }

  // Of each row: products become logits, and what is subtracted from them is found. A NaN is lost
  // here, but makes its weight NaN, and so the row; +inf less +inf does, too.
  HWY_INLINE void FindLargest() {
    const DF d;
    // At least the least finite number, so that -inf is never subtracted from itself.
    const VF least = hn::Set(d, std::numeric_limits<float>::lowest());
    for (int64_t r = 0; r < rows_; ++r) {
      float* const logits = logits_ + r * layout_.logits_stride;
      if (!plain_) AddBias(r, logits);
      VF largest = least, other = least;
      for (int64_t j = 0; j < layout_.keys; j += 2 * kLanes) {
        largest = hn::Max(largest, hn::Load(d, logits + j));
        other = hn::Max(other, hn::Load(d, logits + j + kLanes));
      }
      hn::Store(hn::MaxOfLanes(d, hn::Max(largest, other)), d, largest_ + r * kLanes);
      hn::Store(hn::Zero(d), d, sums_ + r * kLanes);
    }
  }

  HWY_INLINE void AddBias(int64_t row, float* logits) const {
    const DF d;
    const VF scale = hn::Set(d, job_.scale);
    const float* const bias = bias_ != nullptr ? bias_ + row * job_.bias_query : nullptr;
    for (int64_t j = 0; j < job_.keys; j += kLanes) {
      VF s = hn::Load(d, logits + j);
      const int64_t left = job_.keys - j;
      if (bias == nullptr) {
        s = hn::Mul(s, scale);
      } else {
        const VF added = job_.bias_key == 0 ? hn::Set(d, *bias) : LoadLanes(bias + j, left);
        s = hn::MulAdd(s, scale, added);
        if (job_.bias_hides) {
          s = hn::IfThenElse(hn::Eq(added, hn::Set(d, -kInfinity)), added, s);
        }
      }
      if (left < kLanes) {
        s = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(left)), s, hn::Set(d, -kInfinity));
      }
      hn::Store(s, d, logits + j);
    }
  }

  // Of all rows: logits become weights, and their sums are found.
  HWY_INLINE void SelectWeights(const knn::Selection& selection) {
    const DF d;
    if (!plain_) {
      for (int64_t r = 0; r < rows_; ++r) AddBias(r, logits_ + r * layout_.logits_stride);
    }
    for (int64_t first = 0; first < width_; first += kLanes) {
      float* const logits = logits_ + first * layout_.logits_stride;
      HWY_ALIGN float sums[kLanes];
      hn::Store(
          WeighNearest(logits, layout_.logits_stride, job_.keys, selection, factor_, columns_), d,
          sums);
      for (int64_t r = 0; r < kLanes; ++r) {
        // StoreRows adds up lanes.
        hn::Store(hn::IfThenElseZero(hn::FirstN(d, 1), hn::Set(d, sums[r])), d,
                  sums_ + (first + r) * kLanes);
        for (int64_t j = job_.keys; j < layout_.keys; ++j) {
          logits[r * layout_.logits_stride + j] = 0.0f;
        }
      }
    }
  }

  // MakeWeights, of weights that there are.
  HWY_INLINE void TakeWeights(int64_t row, int64_t first, uint16_t* to) {
    const DF d;
    const float* const weights = logits_ + row * layout_.logits_stride + first;
    uint16_t* const out = to + row * layout_.weights_stride;
    for (int64_t j = 0; j < DepthOf(first); j += 2 * kLanes) {
      StoreParts<kParts>(hn::Load(d, weights + j), hn::Load(d, weights + j + kLanes), out + j,
                         layout_.weights_plane);
    }
  }

  // Weights of a row's keys [first, first + kChunk) or up to layout_.keys: zero past the last key.
  template <Exponents kExponents>
  HWY_INLINE void MakeWeights(int64_t row, int64_t first, uint16_t* to) {
    const DF d;
    const VF factor = hn::Set(d, factor_);
    const VF largest = kExponents == Exponents::kBelowLimit ? hn::Set(d, -kLimit)
                                                            : hn::Load(d, largest_ + row * kLanes);
    const float* const logits = logits_ + row * layout_.logits_stride + first;
    uint16_t* const out = to + row * layout_.weights_stride;
    VF even_sum = hn::Load(d, sums_ + row * kLanes), odd_sum = hn::Zero(d);
    VF farthest = farthest_;
    const auto make = [&](int64_t j) HWY_ATTR {
      const VF even = Weight<kExponents>(hn::Load(d, logits + j), largest, factor, farthest);
      const VF odd =
          Weight<kExponents>(hn::Load(d, logits + j + kLanes), largest, factor, farthest);
      even_sum = hn::Add(even_sum, even);
      odd_sum = hn::Add(odd_sum, odd);
      StoreParts<kParts>(even, odd, out + j, layout_.weights_plane);
    };
    const int64_t left = layout_.keys - first;
    if (left >= kChunk) {
      HWY_UNROLL(4)
      for (int64_t j = 0; j < kChunk; j += 2 * kLanes) make(j);
    } else {
      for (int64_t j = 0; j < left; j += 2 * kLanes) make(j);
    }
    farthest_ = farthest;
    hn::Store(hn::Add(even_sum, odd_sum), d, sums_ + row * kLanes);
  }

  template <Exponents kExponents>
  static HWY_INLINE VF Weight(VF s, VF largest, VF factor, VF& farthest) {
    constexpr ExpPrecision kPrecision = kParts == 3 ? ExpPrecision::kFp32 : ExpPrecision::kBf16;
    const DF d;
    if constexpr (kExponents == Exponents::kBelowLimit) {
      // Of -inf, which is hidden and not a logit, nothing.
      farthest =
          LargerMagnitude(farthest, hn::IfThenZeroElse(hn::Eq(s, hn::Set(d, -kInfinity)), s));
      return Exp2OfAny<kPrecision>(d, hn::MulAdd(s, factor, largest));
    }
    return Exp2OfAny<kPrecision>(d, hn::Mul(hn::Sub(s, largest), factor));
  }

  // make_row(row, key, to): the weights of the chunk that begins with `key`.
  template <class MakeRow>
  HWY_INLINE void MultiplyByValues(const MakeRow& make_row) {
    uint16_t* made = weights_;
    uint16_t* other = weights_ + kParts * layout_.weights_plane;
    for (int64_t r = 0; r < rows_; ++r) make_row(r, 0, made);
    for (int64_t key = 0; key < job_.keys; key += kChunk) {
      const int64_t following = key + kChunk;
      int64_t next = following < job_.keys ? 0 : rows_;  // row whose weights are to be made
      const int64_t pauses =
          (layout_.value_depth + kSide - 1) / kSide * kPairs * DepthOf(key) / kStep;
      const int64_t per_pause = (rows_ + pauses - 1) / pauses;
      const auto make = [&](int64_t end) HWY_ATTR {
        for (; next < end && next < rows_; ++next) make_row(next, following, other);
      };
      AddValues(key, made, [&]() HWY_ATTR { make(next + per_pause); });
      make(rows_);
      uint16_t* const used = made;
      made = other;
      other = used;
    }
  }

  // Keys of the chunk that begins with `key`, as tiles have them.
  HWY_INLINE int64_t DepthOf(int64_t key) const {
    return layout_.keys - key < kChunk ? layout_.keys - key : kChunk;
  }

  // output = or += weights * values of the chunk that begins with `key`.
  template <class Between>
  HWY_INLINE void AddValues(int64_t key, const uint16_t* weights, const Between& between) {
    simd::TileFence();
    const TileRows rows = {weights, layout_.weights_stride, layout_.weights_plane};
    for (int64_t c = 0; c < job_.value_dim; c += kSide) {
      const TileColumns columns = {value_ + key * layout_.value_depth + c * kStep,
                                   kStep * layout_.value_depth, simd::kRegisterElements,
                                   layout_.value_plane};
      MultiplyTileUpTo<kParts>(width_, job_.value_dim - c, rows, columns, DepthOf(key), key > 0,
                               output_ + c, layout_.output_stride, between);
    }
  }

  HWY_INLINE void StoreRows(T* to) const {
    const DF d;
    for (int64_t r = 0; r < rows_; ++r, to += job_.output.token) {
      const VF sum = hn::SumOfLanes(d, hn::Load(d, sums_ + r * kLanes));
      // A row without a finite logit is zero; NaN stays.
      const VF factor =
          hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, 1.0f), sum));
      const float* const from = output_ + r * layout_.output_stride;
      for (int64_t c = 0; c < job_.value_dim; c += 2 * kLanes) {
        StoreLanes(hn::Mul(hn::Load(d, from + c), factor),
                   hn::Mul(hn::Load(d, from + c + kLanes), factor), job_.value_dim - c, to + c);
      }
    }
  }

  static HWY_INLINE void StoreLanes(VF first, VF second, int64_t count, float* to) {
    const DF d;
    if (count >= 2 * kLanes) {
      hn::StoreU(first, d, to);
      return hn::StoreU(second, d, to + kLanes);
    }
    HWY_ALIGN float lanes[2 * kLanes];
    hn::Store(first, d, lanes);
    hn::Store(second, d, lanes + kLanes);
    for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
  }
  static HWY_INLINE void StoreLanes(VF first, VF second, int64_t count, uint16_t* to) {
    if (count >= 2 * kLanes) return StoreBf16(first, second, to);
    HWY_ALIGN uint16_t lanes[2 * kLanes];
    StoreBf16(first, second, lanes);
    for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
  }

  const TokenSetsJob& job_;
  const TilesLayout& layout_;
  const int64_t rows_, width_;  // queries, and those that tiles have
  float* const logits_;
  float* const largest_;  // [rows][a vector of the same]
  float* const sums_;     // [rows][a vector to be summed], of weights
  float* const output_;
  float* const columns_;  // of nearest keys: two vectors a key
  uint16_t* const query_;
  const uint16_t* const key_;
  const uint16_t* const value_;
  uint16_t* const weights_;  // of two chunks
  const float* const bias_;
  const bool plain_;  // the exponential applies the scale (cpu_weights-inl.h)
  const float factor_;
  VF farthest_;
};

// `selection`: null: all keys.
template <class T>
HWY_INLINE void AttendBlocksOnTiles(const TokenSetsJob& job, const knn::Selection* selection,
                                    char* scratch, int64_t begin, int64_t end) {
  const TilesLayout layout(job);
  bool infinite = false;  // of the head's keys and values
  const auto at = [&](const Rows& rows, const Block& block, int64_t token)
                      HWY_ATTR { return static_cast<T*>(RowOf(job, rows, block, token)); };
  for (int64_t index = begin; index < end; ++index) {
    const Block block = BlockAt(job.queries, job.blocks, job.heads, index);
    const T *const key = at(job.key, block, 0), *const value = at(job.value, block, 0);
    if (index == begin || block.first == 0) {
      auto* const query = reinterpret_cast<uint16_t*>(scratch + layout.query);
      infinite = TakeKeyColumns(key, job, layout, query,
                                reinterpret_cast<uint16_t*>(scratch + layout.key));
      infinite |=
          TakeValueColumns(value, job, layout, reinterpret_cast<uint16_t*>(scratch + layout.value));
    }
    TilesBlock<T> on_tiles(job, layout, block, scratch);
    const T* const query = at(job.query, block, block.first);
    T* const output = at(job.output, block, block.first);
    if (selection != nullptr) {
      on_tiles.AttendNearest(*selection, query, key, value, infinite, output);
    } else {
      on_tiles.Attend(query, key, value, infinite, output);
    }
  }
}

void AttendOnTiles(const TokenSetsJob& job, const knn::Selection* selection, char* scratch,
                   int64_t begin, int64_t end) {
  if (job.arithmetic == Arithmetic::kFp32) {
    AttendBlocksOnTiles<float>(job, selection, scratch, begin, end);
  } else {
    AttendBlocksOnTiles<uint16_t>(job, selection, scratch, begin, end);
  }
}

#endif  // AVX-512

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::attend {

TokenSetsJob OneHeadJob(Arithmetic arithmetic, int64_t tokens, int64_t dim, int64_t value_dim) {
  TokenSetsJob job{};
  job.arithmetic = arithmetic;
  job.heads = 1;
  job.queries = job.keys = tokens;
  job.dim = dim;
  job.value_dim = value_dim;
  job.block_width = kTileQueries;
  job.blocks = (tokens + kTileQueries - 1) / kTileQueries;
  return job;
}

bool FitsTiles(const TokenSetsJob& job) {
  // What a thread reads again for each block stays in L2.
  return (job.bias == nullptr || job.bias_key <= 1) && TilesLayout(job).bytes <= simd::kL2Scratch;
}

bool ByTiles(AttentionWay way, const TokenSetsJob& job) {
  if (way != AttentionWay::kTiles) return false;
  TORCH_INTERNAL_ASSERT(simd::HasAmxTiles());  // which asks the system for them
  return FitsTiles(job);
}

int64_t TilesScratchBytes(const TokenSetsJob& job) { return TilesLayout(job).bytes; }
int64_t NearestTilesScratchBytes(const TokenSetsJob& job) {
  return TilesLayout(job).bytes_of_nearest();
}

void AttendOnTiles(const TokenSetsJob& job, char* scratch, int64_t begin, int64_t end) {
  N_AVX3::AttendOnTiles(job, nullptr, scratch, begin, end);
}

void AttendNearestOnTiles(const TokenSetsJob& job, const knn::Selection& selection, char* scratch,
                          int64_t begin, int64_t end) {
  N_AVX3::AttendOnTiles(job, &selection, scratch, begin, end);
}

}  // namespace fovea::kernels::attend
#endif  // HWY_ONCE
