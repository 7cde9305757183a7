#include "model_zoo/attention/windows.h"

#include <ATen/ATen.h>
#include <ATen/TensorIndexing.h>

#include <algorithm>
#include <limits>

#include "model_zoo/attention/attention.h"

namespace fovea::models {
namespace {

// [height, width] -> [count, tokens].
at::Tensor CutPlane(const at::Tensor& plane, const std::array<int64_t, 2>& window) {
  return plane.unflatten(1, {-1, window[1]})
      .unflatten(0, {-1, window[0]})
      .permute({0, 2, 1, 3})
      .reshape({-1, window[0] * window[1]});
}

// Which end of the map a rolled row (or column) came from, where its window holds both: 1 for the
// rows that were rolled around, 0 for all others.
at::Tensor RolledAround(int64_t size, int64_t shift) {
  return at::arange(size).ge(size - shift).to(at::kLong);
}

}  // namespace

Windows::Windows(std::array<int64_t, 2> map, std::array<int64_t, 2> window,
                 std::array<int64_t, 2> shift)
    : map_(map), window_(window), shift_(shift) {
  for (int axis = 0; axis < 2; ++axis) {
    TORCH_CHECK(window[axis] > 0 && map[axis] > 0 && map[axis] % window[axis] == 0, "a window of ",
                window[axis], " does not divide a map of ", map[axis]);
    TORCH_CHECK(shift[axis] >= 0 && shift[axis] < window[axis], "a shift of ", shift[axis],
                " is not within a window of ", window[axis]);
  }
  count_ = (map[0] / window[0]) * (map[1] / window[1]);
}

at::Tensor Windows::Places(c10::Device device) const {
  const at::Tensor places = at::arange(map_[0] * map_[1], device).view({map_[0], map_[1]});
  return CutPlane(at::roll(places, {-shift_[0], -shift_[1]}, {0, 1}), window_);
}

at::Tensor Windows::Mask(c10::Device device) const {
  const at::Tensor ends = RolledAround(map_[0], shift_[0]).unsqueeze(1) * 2 +
                          RolledAround(map_[1], shift_[1]).unsqueeze(0);
  const at::Tensor end = CutPlane(ends, window_);
  const at::Tensor apart = end.unsqueeze(2).ne(end.unsqueeze(1));
  return at::zeros(apart.sizes(), at::kFloat)
      .masked_fill_(apart, -std::numeric_limits<float>::infinity())
      .to(device);
}

at::Tensor Windows::Cut(const at::Tensor& map) const {
  const at::Tensor rolled = shifted() ? at::roll(map, {-shift_[0], -shift_[1]}, {2, 3}) : map;
  // [B, heads, rows, h, columns, w, D] -> [B, rows, columns, heads, h, w, D]
  return rolled.unflatten(3, {-1, window_[1]})
      .unflatten(2, {-1, window_[0]})
      .permute({0, 2, 4, 1, 3, 5, 6})
      .reshape({map.size(0), count_ * map.size(1), tokens(), map.size(4)});
}

at::Tensor Windows::Join(const at::Tensor& cut) const {
  const int64_t rows = map_[0] / window_[0], columns = map_[1] / window_[1];
  // [B, rows, columns, heads, h, w, D] -> [B, rows, h, columns, w, heads, D]
  at::Tensor map = cut.unflatten(2, {window_[0], window_[1]})
                       .unflatten(1, {rows, columns, -1})
                       .permute({0, 1, 4, 2, 5, 3, 6})
                       .reshape({cut.size(0), map_[0], map_[1], -1, cut.size(3)});
  if (shifted()) map = at::roll(map, {shift_[0], shift_[1]}, {1, 2});
  return map.permute({0, 3, 1, 2, 4});
}

at::Tensor Windows::JoinWeights(const at::Tensor& weights) const {
  const int64_t places = map_[0] * map_[1];
  at::Tensor joined =
      at::zeros({weights.size(0), weights.size(1), places, places}, weights.options());
  using at::indexing::Slice;
  const at::Tensor of = Places(weights.device());
  joined.index_put_({Slice(), Slice(), of.unsqueeze(2), of.unsqueeze(1)}, weights);
  return joined;
}

std::optional<at::Tensor> Windows::LogitBias(const std::optional<at::Tensor>& bias, int64_t heads,
                                             c10::Device device) const {
  if (!bias && !shifted()) return std::nullopt;
  const int64_t n = tokens();
  at::Tensor all;  // [count, 1, n, n]
  if (shifted()) all = (kept_mask_.defined() ? kept_mask_ : Mask(device)).unsqueeze(1);
  if (bias) {
    const at::Tensor each = bias->to(at::kFloat).unsqueeze(0);  // [1, heads, n, n]
    all = all.defined() ? all + each : each;
  }
  return all.expand({count_, heads, n, n}).reshape({1, count_ * heads, n, n});
}

void Windows::KeepMask(c10::Device device) {
  if (shifted()) kept_mask_ = Mask(device);
}

int64_t Windows::kept_bytes() const {
  return kept_mask_.defined() ? static_cast<int64_t>(kept_mask_.nbytes()) : 0;
}

ShiftedWindows::ShiftedWindows(std::array<int64_t, 2> map, int64_t side, bool rolls) {
  for (int axis = 0; axis < 2; ++axis) {
    window[axis] = std::min(side, map[axis]);
    shift[axis] = rolls && side < map[axis] ? side / 2 : 0;
  }
}

at::Tensor AttentionCore::DoAttendWindows(const at::Tensor& query, const at::Tensor& key,
                                          const at::Tensor& value, const Windows& windows,
                                          const std::optional<at::Tensor>& bias) const {
  const at::Tensor mixed = DoAttend(windows.Cut(query), windows.Cut(key), windows.Cut(value),
                                    windows.LogitBias(bias, query.size(1), query.device()));
  return windows.Join(mixed);
}

at::Tensor AttentionCore::MapWindows(const at::Tensor& query, const at::Tensor& key,
                                     const Windows& windows,
                                     const std::optional<at::Tensor>& bias) const {
  const int64_t heads = query.size(1);
  const at::Tensor weights =
      Map(windows.Cut(query), windows.Cut(key), windows.LogitBias(bias, heads, query.device()));
  return windows.JoinWeights(weights.unflatten(1, {windows.count(), heads}).transpose(1, 2));
}

}  // namespace fovea::models
