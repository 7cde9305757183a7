// How a map is cut into windows, rolled as Swin's shifted windows are.
//   Swin Transformer (Liu et al., ICCV 2021), section 3.2 and figure 4.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>

namespace fovea::models {

// The windows of `window` = (h, w) tokens of one map, after rolling it by -`shift`. A row of the
// map is a window (1, width), a column (height, 1), a stripe (s, width). Made once for a map's
// size; thread-safe and shared once its mask is kept.
class Windows {
 public:
  // `window` divides the map, `shift` is in [0, window) on each axis. Throws c10::Error elsewhere.
  Windows(std::array<int64_t, 2> map, std::array<int64_t, 2> window,
          std::array<int64_t, 2> shift = {0, 0});

  const std::array<int64_t, 2>& window() const { return window_; }
  const std::array<int64_t, 2>& shift() const { return shift_; }
  int64_t count() const { return count_; }                    // windows in the map
  int64_t tokens() const { return window_[0] * window_[1]; }  // in a window
  bool shifted() const { return shift_[0] > 0 || shift_[1] > 0; }

  // [B, heads, height, width, D] -> [B, count * heads, tokens, D], window by window.
  at::Tensor Cut(const at::Tensor& map) const;
  // And back; the result is laid out in memory as [B, height, width, heads, D].
  at::Tensor Join(const at::Tensor& cut) const;

  // The weights within each window, [B, heads, count, tokens, tokens], as those of the whole map,
  // [B, heads, height*width, height*width]: zero between windows.
  at::Tensor JoinWeights(const at::Tensor& weights) const;

  // What the logits of all windows are given, to broadcast to [B, count * heads, tokens, tokens]:
  // `bias` [heads, tokens, tokens] for each window and, where the map is rolled, -inf between
  // tokens from both ends of the map. Absent where there is neither.
  std::optional<at::Tensor> LogitBias(const std::optional<at::Tensor>& bias, int64_t heads,
                                      c10::Device device) const;

  // Where the map is rolled: makes the mask once, for LogitBias, which otherwise makes it each
  // time.
  void KeepMask(c10::Device device);
  int64_t kept_bytes() const;

 private:
  // Of the windows' tokens in the map, row by row: int64 [count, tokens].
  at::Tensor Places(c10::Device device) const;
  // FP32 [count, tokens, tokens] of 0 and -inf.
  at::Tensor Mask(c10::Device device) const;

  std::array<int64_t, 2> map_;
  std::array<int64_t, 2> window_;
  std::array<int64_t, 2> shift_;
  int64_t count_;
  at::Tensor kept_mask_;  // undefined until KeepMask
};

// How shifted windows of side x side tokens lie on a map that they need not divide.
struct ShiftedWindows {
  // `rolls`: by half a window, as every other block does. A window is at most as large as the map,
  // and not rolled on an axis where it is as large.
  ShiftedWindows(std::array<int64_t, 2> map, int64_t side, bool rolls);

  std::array<int64_t, 2> window;
  std::array<int64_t, 2> shift;
};

}  // namespace fovea::models
