// The two places where attention is injected into a backbone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "model_zoo/layers/layer.h"

namespace fovea::models {

// The map that a token sequence spells row by row, behind `prefix_tokens` tokens (class,
// distillation) without a place.
struct Grid {
  int64_t height = 0;
  int64_t width = 0;
  int64_t prefix_tokens = 0;

  int64_t tokens() const { return prefix_tokens + height * width; }
};

// Attention core: queries look at keys and gather values. Holds no learned numbers, only the
// options it was made with; thread-safe and shared.
class AttentionCore {
 public:
  virtual ~AttentionCore() = default;

  // query [B, heads, Nq, head_dim], key and value [B, heads, Nk, head_dim]: strides free (views of
  // one QKV tensor), last dimension contiguous. bias, added to the scaled logits, broadcasts to [B,
  // heads, Nq, Nk]; -inf masks. Returns [B, heads, Nq, head_dim], laid out so that transpose(1,
  // 2).flatten(2) is a view.
  virtual at::Tensor Attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const std::optional<at::Tensor>& bias = std::nullopt) const = 0;

  // The weights that Attend gives each query, [B, heads, Nq, Nk] in fp32, from the operator's
  // reference: for measures and pictures.
  virtual at::Tensor Map(const at::Tensor& query, const at::Tensor& key,
                         const std::optional<at::Tensor>& bias = std::nullopt) const = 0;
};

// Attention module, or token mixer: tokens in, tokens out, with its own projections.
class AttentionModule : public Layer {
 public:
  // tokens [B, grid.tokens(), channels] -> the same shape.
  virtual at::Tensor forward(const at::Tensor& tokens, const Grid& grid) const = 0;

  // The weights that forward gives, [B, heads, tokens, tokens] in fp32.
  virtual at::Tensor Map(const at::Tensor& tokens, const Grid& grid) const = 0;
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
  bool qkv_bias = true;
};

}  // namespace fovea::models
