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

// For modules whose heads do different things.
void RefuseUnevenHeads(const ModuleSite& site, int64_t parts);

// Global self-attention: every token is a query, a key and a value.
//   Vaswani et al. 2017. Names and order of timm's vision transformer: `qkv` in one projection,
//   `proj`.
std::shared_ptr<AttentionModule> MakeSelfAttention(const AttentionSpec& spec,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& cores);

// The same where both projections are published as 1x1 convolutions: `qkv.weight` [3C, C, 1, 1],
// `proj.weight` [C, C, 1, 1].
std::shared_ptr<AttentionModule> MakePointwiseSelfAttention(const AttentionSpec& spec,
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
// Attention within windows, of the site's size or the option's, shifted by half a window in every
// other block, with a relative position bias.
//   Swin Transformer (Liu et al., ICCV 2021), section 3.2. timm's names: `qkv`, `proj`,
//   `relative_position_bias_table` [(2h-1)(2w-1), heads]. A map that the window does not divide is
//   padded with zero tokens at the bottom and at the right before the projection, which take part
//   (torchvision's order: padded, then rolled). A window as large as the map is not shifted.
// Option: window.
std::shared_ptr<AttentionModule> MakeShiftedWindow(const AttentionSpec& spec,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& cores);

// The modules below project with `qkv` and `proj` and have no biases where nothing is said. Where
// their windows do not divide the map it is padded as above; a window that exceeds the map is as
// large as the map.

// Each token attends its row, and then its column what the rows have gathered, with the same
// queries and keys.
//   Ho et al., Axial Attention in Multidimensional Transformers, 2019, section 3.
std::shared_ptr<AttentionModule> MakeAxial(const AttentionSpec& spec, const ModuleSite& site,
                                           const AttentionFactory& cores);

// One softmax over the row and the column of each token. Has no core.
//   CCNet (Huang et al., ICCV 2019), section 3.2, which attends twice in a row with shared weights:
//   here a block attends once.
std::shared_ptr<AttentionModule> MakeCrissCross(const AttentionSpec& spec, const ModuleSite& site,
                                                const AttentionFactory& cores);

// The first half of the heads attends horizontal stripes, the second half vertical ones. heads
// even.
//   CSWin Transformer (Dong et al., CVPR 2022), section 3.2, without its locally enhanced
//   positional encoding, which belongs to that backbone.
// Option: window, the stripes' width.
std::shared_ptr<AttentionModule> MakeCrossShaped(const AttentionSpec& spec, const ModuleSite& site,
                                                 const AttentionFactory& cores);

// The first half of the heads attends groups of rows that are spread evenly over the map, the
// second half such groups of columns. heads even.
//   Pale Transformer (Wu et al., AAAI 2022), section 3.2.
// Option: window, the number of rows (columns) in a group.
std::shared_ptr<AttentionModule> MakePale(const AttentionSpec& spec, const ModuleSite& site,
                                          const AttentionFactory& cores);

// The first quarter of the heads attends rows, the second columns, the last half windows, shifted
// by half a window in every other block. heads a multiple of 4.
//   AEWin Transformer (Zhang and Gong), section 3.2; section 3.1 shifts the windows, section 3.3
//   has Swin's relative position bias for each head: `bias_rows` [2W-1, heads/4], `bias_columns`
//   [2H-1, heads/4], `bias_window` [(2w-1)^2, heads/2]. Only windows are padded. They are square: a
//   window that exceeds both sides of the map is as large as the longer one, and none is shifted
//   that is not smaller than both.
// Option: window.
std::shared_ptr<AttentionModule> MakeAewin(const AttentionSpec& spec, const ModuleSite& site,
                                           const AttentionFactory& cores);
// Static-key attention: softmax(q k^T scale) v with a learned k, the same for every input.
//   Static Key Attention in Vision (Hu et al.), section 4.1, algorithm 1, whose names these are:
//   `q`, `v`, `proj` and `k` [heads, tokens, head_dim]. Biases as the backbone's; scaled by
//   default, as the baseline of its table 4. Prefix tokens are tokens like others, and have keys of
//   their own. star_relu takes MetaFormer's scale 0.8944 and bias -0.4472. In a backbone of windows
//   it stays within its windows, whose tokens are the keys. Its operator has no mask: in a rolled
//   window at the border, tokens from both ends of the map meet, and a key stands for a place in
//   the window. Padded tokens take part. Our reading: the paper does not say.
// `k` is of the input size that it was trained for; a file's of another size is refused, or resized
// like a position embedding.
// Options: activation, scale, heads, interpolate.
std::shared_ptr<AttentionModule> MakeStaticKey(const AttentionSpec& spec, const ModuleSite& site,
                                               const AttentionFactory& cores);

// The same with a 3x3 convolution of the query map for the product with the keys: a head's M output
// channels are the logits of the map's M places.
//   Section 4.2; algorithm 2 does not run as printed, its names are these: `to_qv` (one projection
//   without a bias), `to_k` (weight [heads * M, head_dim, 3, 3], bias [heads * M]), `to_out.0`
//   (biased where the backbone's projections are), and, where there is a class token, its key
//   `cls_k` [heads, 1, head_dim]. More prefix tokens are refused. Windows and the number of tokens
//   as above.
// Options: activation, scale, heads, interpolate.
std::shared_ptr<AttentionModule> MakeConvStaticKey(const AttentionSpec& spec,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& cores);

// No attention but a convolution in its place: 1x1 to twice the channels, StarReLU, 7x7 depth-wise,
// 1x1 back, none with a bias.
//   MetaFormer Baselines for Vision (Yu et al., 2022), section 3.2. timm's names (SepConv):
//   `pwconv1`, `act1.scale`, `act1.bias`, `dwconv`, `pwconv2`. It has no map, and refuses prefix
//   tokens.
std::shared_ptr<AttentionModule> MakeSeparableConvolution(const AttentionSpec& spec,
                                                          const ModuleSite& site,
                                                          const AttentionFactory& cores);

}  // namespace fovea::models
