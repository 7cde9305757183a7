// Cases of the operators on maps: window, criss-cross and axially expanded window attention.
//
// They differ in which places a place attends; here those are found by looping over them, with no
// roll and no reshape.
#pragma once
#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention/axial_window_attention/op.h"
#include "kernels/attention/criss_cross_attention/op.h"
#include "kernels/attention/window_attention/op.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/token_set_cases.h"

namespace fovea::kernels {

using Pair = std::array<int64_t, 2>;

// Which keys each place of a map of N attends: K of them, in the order of the bias' columns.
struct Attended {
  Pair padded;                    // the map's size, with padding below and to the right
  std::vector<int64_t> keys;      // [N, K]: y * padded width + x
  std::vector<int64_t> hidden;    // [N, K]: not 0 where the place does not see it
  std::vector<int64_t> bias_row;  // [N]: the place's own number among those it attends
  int64_t count = 0;              // K
};

// One axis of a place's window.
struct WindowAxis {
  int64_t window, shift, size, padded;

  int64_t Rolled(int64_t place) const { return (place - shift + padded) % padded; }
  // The `i`th place of the window that `place` lies in.
  int64_t Place(int64_t place, int64_t i) const {
    return (Rolled(place) / window * window + i + shift) % padded;
  }
  // On the map before the roll, the window's places are neighbours, or beyond the seam.
  bool BeyondSeam(int64_t place) const { return place != Rolled(place) + shift; }
};

inline Attended InWindow(Pair size, Pair window, Pair shift) {
  const auto axis = [&](int i) {
    return WindowAxis{window[i], shift[i], size[i],
                      (size[i] + window[i] - 1) / window[i] * window[i]};
  };
  const WindowAxis rows = axis(0), columns = axis(1);
  Attended attended{.padded = {rows.padded, columns.padded}, .count = window[0] * window[1]};
  for (int64_t y = 0; y < size[0]; ++y) {
    for (int64_t x = 0; x < size[1]; ++x) {
      attended.bias_row.push_back(rows.Rolled(y) % window[0] * window[1] +
                                  columns.Rolled(x) % window[1]);
      for (int64_t i = 0; i < attended.count; ++i) {
        const int64_t key_y = rows.Place(y, i / window[1]);
        const int64_t key_x = columns.Place(x, i % window[1]);
        attended.keys.push_back(key_y * columns.padded + key_x);
        attended.hidden.push_back(rows.BeyondSeam(y) != rows.BeyondSeam(key_y) ||
                                  columns.BeyondSeam(x) != columns.BeyondSeam(key_x));
      }
    }
  }
  return attended;
}

inline Attended OnRowAndColumn(Pair size) {
  Attended attended{.padded = size, .count = size[0] + size[1] - 1};
  for (int64_t y = 0; y < size[0]; ++y) {
    for (int64_t x = 0; x < size[1]; ++x) {
      for (int64_t i = 0; i < size[0] * size[1]; ++i) {
        if (i / size[1] == y || i % size[1] == x) attended.keys.push_back(i);
      }
      attended.bias_row.push_back(0);
    }
  }
  attended.hidden.assign(attended.keys.size(), 0);
  return attended;
}

// query, key and value [B, heads, H, W, D]; bias [heads, K, K] and pads [heads, D], or undefined.
inline Rounded AttendPlaces(const Attended& attended, const Tensors& qkv, const at::Tensor& bias,
                            const at::Tensor& pad_key, const at::Tensor& pad_value,
                            const Scale& scale, const Precision& p) {
  const at::Tensor query = qkv[0].flatten(2, 3);
  const int64_t heads = query.size(1), places = query.size(2), dim = query.size(3);
  const std::vector<int64_t> shape = {places, attended.count};
  const at::Tensor keys = at::tensor(attended.keys, at::kLong).view(shape);
  const auto padded = [&](const at::Tensor& map, const at::Tensor& pad) {
    at::Tensor full =
        at::zeros({map.size(0), heads, attended.padded[0], attended.padded[1], dim}, map.options());
    if (pad.defined()) full.copy_(pad.unsqueeze(1).unsqueeze(1));
    full.narrow(2, 0, map.size(2)).narrow(3, 0, map.size(3)).copy_(map);
    return full.flatten(2, 3);
  };
  // Of every place with every other, all but those that it attends masked.
  Rounded logits = Logits(query, padded(qkv[1], pad_key), {}, scale, p);
  const int64_t others = logits.value.size(-1);
  if (bias.defined()) {
    const at::Tensor rows = bias.index_select(1, at::tensor(attended.bias_row, at::kLong));
    const at::Tensor full = at::zeros({heads, places, others}, rows.options());
    logits = Sum(logits, Exact(full.scatter(-1, keys.expand_as(rows), rows)), p.sums);
  }
  const at::Tensor hidden = at::tensor(attended.hidden, at::kLong).to(at::kBool).view(shape);
  const at::Tensor unseen = at::ones({places, others}, at::kBool).scatter(-1, keys, hidden);
  return SoftmaxAverage(Masked(logits, unseen), Exact(padded(qkv[2], pad_value)), p, attended.count)
      .Map([&](const at::Tensor& t) { return t.view_as(qkv[0]); });
}

inline Pair SizeOf(const at::Tensor& map) { return {map.size(2), map.size(3)}; }

// `qkv` as RandomMaps makes them.
inline AttentionCase WindowCase(const Tensors& qkv, Pair window, Pair shift,
                                const at::Tensor& bias = {}, const Scale& scale = std::nullopt) {
  const auto text = [](Pair p) { return std::to_string(p[0]) + "x" + std::to_string(p[1]); };
  return {.name = "window_attention, map " + text(SizeOf(qkv[0])) + ", window " + text(window) +
                  ", shift " + text(shift) + (bias.defined() ? ", bias" : ""),
          .inputs = {qkv[0], qkv[1], qkv[2], bias},
          .run =
              [=](const Tensors& t) {
                return WindowAttention(t[0], t[1], t[2], window, shift, scale, IfDefined(t[3]));
              },
          .definition =
              [=](const Tensors& t, const Precision& p) {
                return AttendPlaces(InWindow(SizeOf(t[0]), window, shift), t, t[3], {}, {}, scale,
                                    p);
              }};
}

inline AttentionCase CrissCrossCase(const Tensors& qkv, const Scale& scale = std::nullopt) {
  return {.name = "criss_cross_attention",
          .inputs = qkv,
          .run = [=](const Tensors& t) { return CrissCrossAttention(t[0], t[1], t[2], scale); },
          .definition =
              [=](const Tensors& t, const Precision& p) {
                return AttendPlaces(OnRowAndColumn(SizeOf(t[0])), t, {}, {}, {}, scale, p);
              }};
}

// inputs: query, key, value; bias_rows, bias_columns, bias_window, pad_key, pad_value or undefined.
inline AttentionCase AxialCase(const Tensors& inputs, int64_t window, int64_t shift,
                               const Scale& scale = std::nullopt) {
  return {.name = "axial_window_attention, window " + std::to_string(window) + ", shift " +
                  std::to_string(shift),
          .inputs = inputs,
          .run =
              [=](const Tensors& t) {
                return AxialWindowAttention(t[0], t[1], t[2], window, shift, scale, IfDefined(t[3]),
                                            IfDefined(t[4]), IfDefined(t[5]), IfDefined(t[6]),
                                            IfDefined(t[7]));
              },
          .definition =
              [=](const Tensors& t, const Precision& p) {
                const int64_t quarter = t[0].size(1) / 4;
                const Pair size = SizeOf(t[0]);
                const auto heads = [&](int64_t first, int64_t count) {
                  return Tensors{t[0].narrow(1, first, count), t[1].narrow(1, first, count),
                                 t[2].narrow(1, first, count)};
                };
                const Rounded rows = AttendPlaces(InWindow(size, {1, size[1]}, {0, 0}),
                                                  heads(0, quarter), t[3], {}, {}, scale, p);
                const Rounded columns =
                    AttendPlaces(InWindow(size, {size[0], 1}, {0, 0}), heads(quarter, quarter),
                                 t[4], {}, {}, scale, p);
                const Rounded windows =
                    AttendPlaces(InWindow(size, {window, window}, {shift, shift}),
                                 heads(2 * quarter, 2 * quarter), t[5], t[6], t[7], scale, p);
                return Concatenated(Concatenated(rows, columns, 1), windows, 1);
              }};
}

// Random inputs of the above.
inline Tensors RandomAxial(int64_t batch, int64_t heads, Pair size, int64_t dim, int64_t window,
                           bool biases, bool pads, at::ScalarType type) {
  Tensors inputs = RandomMaps(batch, heads, size[0], size[1], dim, type);
  const auto given = [](bool is, at::IntArrayRef shape) {
    return is ? at::randn(shape) : at::Tensor();
  };
  inputs.push_back(given(biases, {heads / 4, size[1], size[1]}));
  inputs.push_back(given(biases, {heads / 4, size[0], size[0]}));
  inputs.push_back(given(biases, {heads / 2, window * window, window * window}));
  for (int i = 0; i < 2; ++i) {
    const at::Tensor pad = given(pads, {heads / 2, dim});
    inputs.push_back(pad.defined() ? pad.to(type) : pad);
  }
  return inputs;
}

}  // namespace fovea::kernels
