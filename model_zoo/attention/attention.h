// The two places where attention is injected into a backbone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "model_zoo/layers/grid.h"
#include "model_zoo/layers/layer.h"

namespace fovea::models {

class LayerNorm;  // layers/layer_norm.h
class Linear;     // layers/linear.h
class Windows;    // attention/windows.h

// Attention core: queries look at keys and gather values. Holds no learned numbers, only the
// options it was made with; thread-safe and shared. What Attend and AttendWindows take counts as
// attention's time (attention_time.h).
class AttentionCore {
 public:
  virtual ~AttentionCore() = default;

  // query [B, heads, Nq, head_dim], key and value [B, heads, Nk, head_dim]: strides free (views of
  // one QKV tensor), last dimension contiguous. bias, added to the scaled logits, broadcasts to [B,
  // heads, Nq, Nk]; -inf masks. Returns [B, heads, Nq, head_dim], laid out so that transpose(1,
  // 2).flatten(2) is a view.
  at::Tensor Attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& bias = std::nullopt) const;

  // The weights that Attend gives each query, [B, heads, Nq, Nk] in fp32, from the operator's
  // reference: for measures and pictures.
  virtual at::Tensor Map(const at::Tensor& query, const at::Tensor& key,
                         const std::optional<at::Tensor>& bias = std::nullopt) const = 0;

  // The weights for logits that the caller made of this query and key itself, [B, heads, Nq, Nk],
  // scaled but untouched by the core's options (talking heads mix them between heads). In the
  // logits' type.
  virtual at::Tensor Weigh(const at::Tensor& logits, const at::Tensor& query,
                           const at::Tensor& key) const = 0;

  // Attend within the windows of maps [B, heads, height, width, head_dim], strides free, last
  // dimension contiguous; bias [heads, n, n] for the n tokens of a window in row-major order.
  // Returns [B, heads, height, width, head_dim], laid out so that permute({0, 2, 3, 1,
  // 4}).flatten(3) is a view.
  at::Tensor AttendWindows(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const Windows& windows,
                           const std::optional<at::Tensor>& bias = std::nullopt) const;

  // Whether AttendWindows asks `windows` for the mask of a rolled map: a module that is prepared
  // then keeps it (Windows::KeepMask).
  virtual bool ReadsWindowMasks() const { return true; }

  // The weights that AttendWindows gives, [B, heads, height*width, height*width] in fp32, zero
  // between windows.
  at::Tensor MapWindows(const at::Tensor& query, const at::Tensor& key, const Windows& windows,
                        const std::optional<at::Tensor>& bias = std::nullopt) const;

 private:
  virtual at::Tensor DoAttend(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value,
                              const std::optional<at::Tensor>& bias) const = 0;
  // By default the windows are gathered and given to DoAttend; a core with a kernel for windows
  // overrides it.
  virtual at::Tensor DoAttendWindows(const at::Tensor& query, const at::Tensor& key,
                                     const at::Tensor& value, const Windows& windows,
                                     const std::optional<at::Tensor>& bias) const;
};

// Attention module, or token mixer: tokens in, tokens out, with its own projections.
//   Most end with a linear layer and say so: a block then puts its norm, its residual and its MLP
//   into one pass with the projections (layers/linear_chain.h). The others have a forward of their
//   own.
//   One that attends without a core has an AttentionRegion (attention_time.h) around what it does
//   between its projections.
class AttentionModule : public Layer {
 public:
  // tokens [B, grid.tokens(), channels] -> the same shape. `grid` is the one of the module's site.
  // The tokens by value: given up by its caller, they do not live beside what is made of them.
  virtual at::Tensor forward(at::Tensor tokens, const Grid& grid) const;

  // The linear layer with which forward ends; null where it ends otherwise.
  virtual const Linear* projection() const { return nullptr; }
  // What goes into projection() for norm(tokens), or for the tokens themselves where it is null.
  virtual at::Tensor Mix(at::Tensor tokens, const LayerNorm* norm, const Grid& grid) const;

  // The weights that forward gives, [B, heads, tokens, tokens] in fp32. Undefined where a module
  // has no such weights (a convolution).
  virtual at::Tensor Map(const at::Tensor& tokens, const Grid& grid) const = 0;

  // What forward gives with `map` in place of its own weights, so that gradients for them can be
  // taken: Apply(Map(tokens, grid), tokens, grid) is forward(tokens, grid), up to rounding.
  // Undefined where the weights over tokens do not say all that it does: where keys stand for
  // several tokens or lie beyond the map's border.
  virtual at::Tensor Apply(const at::Tensor& /*map*/, const at::Tensor& /*tokens*/,
                           const Grid& /*grid*/) const {
    return {};
  }

  // Of its map. AttentionFactory sets those of its site, unless the module has set its own.
  int64_t heads() const { return heads_of_map_; }
  void SetHeads(int64_t heads) { heads_of_map_ = heads; }

 private:
  int64_t heads_of_map_ = 0;
};

// Where a core is asked to stand.
struct CoreSite {
  int64_t head_dim = 0;
  int64_t keys = 0;             // that every query sees: a count k above it is refused
  std::optional<double> scale;  // of the logits; absent: 1/sqrt(head_dim)
};

// Where a module is asked to stand.
struct ModuleSite {
  int64_t channels = 0;
  int64_t heads = 0;
  Grid grid;
  int64_t block = 0;      // counted from 0 within its stage: shifted windows shift in the odd ones
  int64_t window = 7;     // the backbone's own, for modules that take one and whose text names none
  bool windowed = false;  // whether the backbone cuts its map into them: static keys then do too
  bool rolls_first = false;  // shifted windows roll the map before it is padded
  // The map that static keys were trained for, where that may be another than `grid`: they then
  // attend within windows of it. 0x0: static keys are of `grid`.
  Grid trained;
  bool qkv_bias = true;
  bool proj_bias = true;
};

}  // namespace fovea::models
