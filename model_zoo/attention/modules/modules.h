// The attention modules: what the registry lists, and what backbones take for their own.
//
// Each Make function builds the module that `spec` describes for `site`, with a core from `cores`
// where it has one. They throw c10::ValueError in words where the module cannot stand there, for
// one of the reasons of ../README.md.
#pragma once

#include <memory>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/attention_spec.h"
#include "model_zoo/attention/factory.h"

namespace fovea::models {

// For modules that need every token to have a place on the map.
void RefusePrefixTokens(const ModuleSite& site);

// Global self-attention: every token is a query, a key and a value.
//   Vaswani et al. 2017. Names and order of timm's vision transformer: `qkv` in one projection,
//   `proj`.
std::shared_ptr<AttentionModule> MakeSelfAttention(const AttentionSpec& spec,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& cores);

// Key-only attention: no queries, and so no pairs; linear in the number of tokens.
//   LinGlo (Rethinking Query-Key Pairwise Interactions in Vision Transformers), equations 2 to 4:
//   Y = ((G * V) U_1 + K) U_2, with G per head the sum of its keys under one softmax of
//   key . saliency / sqrt(head_dim), and U_1, U_2 over the concatenated heads. Parameters `k`, `v`,
//   `u1`, `u2` (`weight` [C, C], `bias` [C], as torch's Linear) and `saliency` [heads, head_dim].
//   Prefix tokens are tokens like others. Its Map has the same row for every query.
std::shared_ptr<AttentionModule> MakeKeyOnly(const AttentionSpec& spec, const ModuleSite& site,
                                             const AttentionFactory& cores);

// Attention within windows of 7x7 tokens, shifted by half a window in every other block, with a
// relative position bias.
//   Swin Transformer (Liu et al., ICCV 2021), section 3.2. timm's names: `qkv`, `proj`,
//   `relative_position_bias_table` [(2h-1)(2w-1), heads]. A map that the window does not divide is
//   padded with zero tokens at the bottom and at the right before the projection, which take part
//   (torchvision's order: padded, then rolled). A window as large as the map is not shifted.
// Option: window.
std::shared_ptr<AttentionModule> MakeShiftedWindow(const AttentionSpec& spec,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& cores);

}  // namespace fovea::models
