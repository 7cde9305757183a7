// One window of one head (cpu_windows.h).
#include <cstdint>
#include <cstring>

#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/attention/shared/cpu_windows.h"
#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/shared/cpu_one_window.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/shared/cpu_panels-inl.h"
#include "kernels/attention/shared/cpu_token_sets-inl.h"
#include "kernels/attention/shared/cpu_weights-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using attend::Outcome;
using attend::Places;
using attend::WindowsJob;
using attend::WindowsScratch;

// Which window of which head of which image.
struct Window {
  int64_t batch;
  int64_t head;
  int64_t row;  // of windows
  int64_t column;
};

// Heads of a window follow each other: their channels lie side by side in memory.
Window WindowAt(const WindowsJob& job, int64_t task) {
  const int64_t head = task % job.heads;
  const int64_t window = task / job.heads;
  const int64_t column = window % job.windows[1];
  const int64_t row = window / job.windows[1] % job.windows[0];
  return {window / job.windows[1] / job.windows[0], head, row, column};
}

int64_t ElementBytes(const WindowsJob& job) { return job.arithmetic == Arithmetic::kFp32 ? 4 : 2; }

// Where along an axis the `i`th token of the `window`th window lies, after the roll.
int64_t PlaceAlong(const WindowsJob& job, int axis, int64_t window, int64_t i) {
  const int64_t size = job.windows[axis] * job.window[axis];
  const int64_t place = window * job.window[axis] + i + job.shift[axis];
  return place < size ? place : place - size;
}

char* PlaceOf(const WindowsJob& job, const Places& map, const Window& window, int64_t y,
              int64_t x) {
  const int64_t element =
      window.batch * map.batch + window.head * map.head + y * map.row + x * map.column;
  return static_cast<char*>(map.data) + element * ElementBytes(job);
}

// The stride at which a window's tokens lie, in elements, or 0 where there is no single one.
int64_t UniformStride(const WindowsJob& job, const Places& map) {
  const bool whole =
      job.windows[0] * job.window[0] == job.height && job.windows[1] * job.window[1] == job.width;
  if (!whole || job.shift[0] != 0 || job.shift[1] != 0) return 0;
  if (job.window[0] == 1) return map.column;
  if (job.window[1] == 1) return map.row;
  return job.window[1] == job.width && map.row == job.width * map.column ? map.column : 0;
}

// Calls visit(i, y, x) for the window's tokens, (y, x) their places on the padded map.
template <class Visit>
void ForTokens(const WindowsJob& job, const Window& window, const Visit& visit) {
  int64_t i = 0;
  for (int64_t ty = 0; ty < job.window[0]; ++ty) {
    const int64_t y = PlaceAlong(job, 0, window.row, ty);
    for (int64_t tx = 0; tx < job.window[1]; ++tx) {
      visit(i++, y, PlaceAlong(job, 1, window.column, tx));
    }
  }
}

// A token's channels: too few for a call of memcpy.
HWY_INLINE void CopyToken(const char* from, int64_t bytes, char* to) {
  const hn::ScalableTag<uint8_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= bytes; i += lanes) {
    hn::StoreU(hn::LoadU(d, reinterpret_cast<const uint8_t*>(from + i)), d,
               reinterpret_cast<uint8_t*>(to + i));
  }
  if (i < bytes) std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

struct TokenRows {
  char* data;
  int64_t stride;  // elements
};

// The window's tokens of a map: where they lie, or gathered into `to`. `pad`: what stands at padded
// places; null: zeros.
TokenRows TakeTokens(const WindowsJob& job, const Places& map, const Window& window,
                     const void* pad, char* to) {
  if (const int64_t stride = UniformStride(job, map); stride != 0) {
    return {PlaceOf(job, map, window, window.row * job.window[0], window.column * job.window[1]),
            stride};
  }
  const int64_t bytes = job.dim * ElementBytes(job);
  ForTokens(job, window, [&](int64_t i, int64_t y, int64_t x) HWY_ATTR {
    if (y < job.height && x < job.width) {
      CopyToken(PlaceOf(job, map, window, y, x), bytes, to + i * bytes);
    } else if (pad != nullptr) {
      std::memcpy(to + i * bytes, pad, bytes);
    } else {
      std::memset(to + i * bytes, 0, bytes);
    }
  });
  return {to, job.dim};
}

void ScatterOutput(const WindowsJob& job, const Window& window, const char* from) {
  const int64_t bytes = job.dim * ElementBytes(job);
  ForTokens(job, window, [&](int64_t i, int64_t y, int64_t x) HWY_ATTR {
    if (y < job.height && x < job.width) {
      CopyToken(from + i * bytes, bytes, PlaceOf(job, job.output, window, y, x));
    }
  });
}

// Swin's slices, which do not see each other: what the roll brought around is one, and what it met
// another. Returns whether the window has more than one.
bool TakeSlices(const WindowsJob& job, const Window& window, float* slices) {
  const bool last_row = job.shift[0] > 0 && window.row == job.windows[0] - 1;
  const bool last_column = job.shift[1] > 0 && window.column == job.windows[1] - 1;
  if (!last_row && !last_column) return false;
  ForTokens(job, window, [&](int64_t i, int64_t y, int64_t x) HWY_ATTR {
    const int around_y = last_row && y < job.shift[0] ? 2 : 0;
    const int around_x = last_column && x < job.shift[1] ? 1 : 0;
    slices[i] = static_cast<float>(around_y + around_x);
  });
  for (int64_t i = job.tokens(); i < job.tokens() + kLanes; ++i) slices[i] = 0.0f;
  return true;
}

const void* PadOf(const WindowsJob& job, const void* pad, int64_t stride, int64_t head) {
  if (pad == nullptr) return nullptr;
  return static_cast<const char*>(pad) + head * stride * ElementBytes(job);
}

// The place's index in the partial softmax of the `i`th token.
int64_t PartialIndex(const WindowsJob& job, const Window& window, int64_t i) {
  const int64_t y = PlaceAlong(job, 0, window.row, i / job.window[1]);
  const int64_t x = PlaceAlong(job, 1, window.column, i % job.window[1]);
  return ((window.batch * job.heads + window.head) * job.height + y) * job.width + x;
}

void KeepPartial(const WindowsJob& job, const Window& window, const Panel& panel, int64_t first,
                 const float* largest, const float* sum) {
  for (int64_t r = 0; r < panel.rows; ++r) {
    const int64_t place = PartialIndex(job, window, first + r);
    job.partial.largest[place] = largest[r];
    job.partial.sum[place] = sum[r];
    std::memcpy(job.partial.output + place * job.dim, panel.output + r * job.dim,
                job.dim * sizeof(float));
  }
}

// Two softmaxes over different keys are one: relative to the larger of their largest logits.
void MergePartial(const WindowsJob& job, const Window& window, const Panel& panel, int64_t first,
                  const float* largest, const float* sum, void* out, int64_t stride) {
  constexpr float kLog2E = 1.44269504f;
  const DF d;
  const hn::CappedTag<float, 1> d1;
  for (int64_t r = 0; r < panel.rows; ++r) {
    const int64_t place = PartialIndex(job, window, first + r);
    const float other_largest = job.partial.largest[place];
    const float top = largest[r] > other_largest ? largest[r] : other_largest;
    const auto relative = [&](float logit) HWY_ATTR {
      return hn::GetLane(Exp2<ExpPrecision::kFp32>(d1, hn::Set(d1, (logit - top) * kLog2E)));
    };
    float ours = relative(largest[r]);
    float others = relative(other_largest);
    const float total = sum[r] * ours + job.partial.sum[place] * others;
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;  // NaN stays NaN
    ours *= inverse;
    others *= inverse;
    float* row = panel.output + r * job.dim;
    const float* other = job.partial.output + place * job.dim;
    int64_t c = 0;
    for (; c + kLanes <= job.dim; c += kLanes) {
      const VF both = hn::MulAdd(hn::LoadU(d, row + c), hn::Set(d, ours),
                                 hn::Mul(hn::LoadU(d, other + c), hn::Set(d, others)));
      hn::StoreU(both, d, row + c);
    }
    for (; c < job.dim; ++c) row[c] = row[c] * ours + other[c] * others;
    char* const to = static_cast<char*>(out) + r * stride * ElementBytes(job);
    if (job.arithmetic == Arithmetic::kFp32) {
      std::memcpy(to, row, job.dim * sizeof(float));
    } else {
      Fp32ToBf16(row, job.dim, reinterpret_cast<uint16_t*>(to));
    }
  }
}

// A panel whose keys are not all that its rows attend. fp32 products.
void AttendPartially(const WindowsJob& job, const Window& window, const Panel& panel,
                     const LogitTerms& terms, int64_t first, void* out, int64_t stride) {
  const DF d;
  HWY_ALIGN float largest[4 * kLanes];
  HWY_ALIGN float sum[4 * kLanes];
  for (int64_t column = 0; column < panel.width; column += kLanes) {
    const SoftmaxOfLanes softmax = SoftmaxColumn<WeightsAs::kFp32>(panel, terms, column);
    const VF nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    hn::Store(softmax.largest, d, largest + column);
    hn::Store(hn::IfThenElse(softmax.broken, nan, softmax.sum), d, sum + column);
    hn::StoreU(hn::Set(d, 1.0f), d, panel.row_factors + column);
  }
  MultiplyByValuesFp32(panel, panel.output, job.dim);
  if (job.outcome == Outcome::kKept) {
    KeepPartial(job, window, panel, first, largest, sum);
  } else {
    MergePartial(job, window, panel, first, largest, sum, out, stride);
  }
}

// Of a window's tokens.
struct WindowRows {
  TokenRows query, key, value, output;
};

void AttendByTiles(const WindowsJob& job, const Window& window, const WindowsScratch& scratch,
                   const WindowRows& rows, bool has_slices) {
  const int64_t tokens = job.tokens();
  const auto as_set = [](const TokenRows& of) { return attend::Rows{of.data, 0, 0, of.stride}; };
  attend::TokenSetsJob tiles = attend::TilesJobOf(job);
  tiles.query = as_set(rows.query);
  tiles.key = as_set(rows.key);
  tiles.value = as_set(rows.value);
  tiles.output = as_set(rows.output);
  tiles.bias_key = 1;
  if (job.bias != nullptr) {
    tiles.bias = job.bias + window.head * job.bias_head;
    tiles.bias_query = job.bias_row;
  }
  if (has_slices) {
    for (int64_t i = 0; i < tokens; ++i) {
      float* const masked = scratch.masked_bias + i * tokens;
      for (int64_t j = 0; j < tokens; ++j) {
        const float bias = tiles.bias != nullptr ? tiles.bias[i * tiles.bias_query + j] : 0;
        masked[j] = scratch.slices[i] == scratch.slices[j] ? bias : -kInfinity;
      }
    }
    tiles.bias = scratch.masked_bias;
    tiles.bias_hides = true;
    tiles.bias_query = tokens;
  }
  attend::AttendOnTiles(tiles, scratch.tiles, 0, tiles.blocks);
}

}  // namespace

void AttendWindow(const WindowsJob& job, const WindowsScratch& scratch, int64_t task) {
  const Window window = WindowAt(job, task);
  const int64_t tokens = job.tokens();
  const int64_t bytes = tokens * job.dim * ElementBytes(job);
  const TokenRows query = TakeTokens(job, job.query, window, nullptr, scratch.gathered);
  const TokenRows key =
      TakeTokens(job, job.key, window, PadOf(job, job.pad_key, job.pad_key_head, window.head),
                 scratch.gathered + bytes);
  const TokenRows value =
      TakeTokens(job, job.value, window, PadOf(job, job.pad_value, job.pad_value_head, window.head),
                 scratch.gathered + 2 * bytes);
  const bool in_place = UniformStride(job, job.output) != 0;
  const TokenRows output = in_place ? TakeTokens(job, job.output, window, nullptr, nullptr)
                                    : TokenRows{scratch.gathered + 3 * bytes, job.dim};
  const bool has_slices = TakeSlices(job, window, scratch.slices);
  if (job.way == AttentionWay::kTiles) {
    AttendByTiles(job, window, scratch, {query, key, value, output}, has_slices);
    if (!in_place) ScatterOutput(job, window, output.data);
    return;
  }

  Panel panel{};
  panel.arithmetic = job.arithmetic;
  panel.keys = tokens;
  panel.depth = panel.dim = job.dim;
  panel.query = scratch.query;
  panel.logits = scratch.logits;
  panel.row_factors = scratch.row_factors;
  panel.output = scratch.output;
  const Staged staged = {scratch.key, scratch.value};
  TakeKeys(key.data, key.stride, staged, panel);
  TakeValues(value.data, value.stride, staged, panel);

  const int64_t blocks = (tokens + job.block_width - 1) / job.block_width;
  for (int64_t i = 0; i < blocks; ++i) {
    const Block block = BlockAt(tokens, blocks, 1, i);
    panel.rows = block.rows;
    panel.width = block.width;
    TakeQueries(query.data + block.first * query.stride * ElementBytes(job), query.stride, panel);
    MultiplyByKeys(panel);
    LogitTerms terms{.scale = job.scale};
    if (!job.sees_itself) terms.itself = block.first;
    if (job.bias != nullptr) {
      terms.bias = job.bias + window.head * job.bias_head + block.first;
      terms.bias_stride = job.bias_row;
    }
    if (has_slices) {
      terms.query_slice = scratch.slices + block.first;
      terms.key_slice = scratch.slices;
    }
    char* const out = output.data + block.first * output.stride * ElementBytes(job);
    if (job.outcome == Outcome::kWritten) {
      WeighPanel(panel, terms, {});
      MultiplyByValues(panel, out, output.stride);
    } else {
      AttendPartially(job, window, panel, terms, block.first, out, output.stride);
    }
  }
  if (!in_place && job.outcome != Outcome::kKept) ScatterOutput(job, window, output.data);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::attend {

void AttendWindow(const WindowsJob& job, const WindowsScratch& scratch, int64_t task) {
  FOVEA_SIMD_CHOOSE(AttendWindow)(job, scratch, task);
}

void ReleaseWindows(const WindowsJob& job) {
  if (job.arithmetic == Arithmetic::kBf16Gemm) simd::ReleaseBf16Gemm();
}

}  // namespace fovea::kernels::attend
#endif  // HWY_ONCE
