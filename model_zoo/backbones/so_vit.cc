// So-ViT: tokens from a small convolutional network, and a classifier that also looks at the
// second-order statistics of the visual tokens.
//   Xie et al. 2021 (arXiv 2104.10935, version 1). Code followed: the official repository
//   (jiangtaoxie/So-ViT) at f0a3e56, the last commit before it became that of the successor SoT
//   (src/so_vit.py, src/model, src/representation, src/normalization), whose names these are:
//   LayerNorm epsilon 1e-5; no bias in queries, keys and values; the position embedding is a table
//   of sines that is stored and never trained.
//   Which stem: the repository offers residual, inception, dense and non-local ones. KVT's table
//   prints 5.5 M parameters and 1.3 G multiply-adds for So-ViT-7. With three residual bottlenecks,
//   which is what the code gives So_vit_7, it counts 5.53 M and 1.28 G (convolutions and linear
//   layers; 5.58 M with the table of sines), with dense blocks 5.40 M and 2.02 G. Hence residual
//   ones; the dense stem is SoT's.
//   Inferred: the evaluation's preprocessing, from its timm's defaults, since the model names none.
//   Different here: the stem always divides an image by 16 (there the last step follows the image's
//   size, and is the same at 224 pixels); covariances are computed in FP32.
#include <ATen/ATen.h>

#include <array>
#include <string>

#include "model_zoo/backbones/plain_backbone.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/layers/batch_norm.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/token_map.h"
#include "model_zoo/weights/random.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kBottleneckEpsilon = 1e-3;  // of the batch norms on a bottleneck's main branch
constexpr int64_t kStride = 16;              // pixels to a token
constexpr int64_t kExpansion = 4;            // of a bottleneck's channels
constexpr int64_t kBottlenecks = 3;

struct SoVitConfig {
  int64_t stem_channels = 64;
  int64_t channels = 0;
  int64_t depth = 0;
  int64_t heads = 0;
  int64_t mlp_ratio = 0;
  std::array<int64_t, 2> covariance = {};  // the channels whose products are pooled
};

SoVitConfig Shrunk(SoVitConfig config) {
  config.stem_channels = 8;
  config.channels = 8 * config.heads;
  config.depth = 2;
  config.covariance = {6, 4};
  return config;
}

at::Tensor Relu(at::Tensor map, bool in_place) { return in_place ? map.relu_() : map.relu(); }

// A convolution without a bias and its batch norm, under two names of their owner.
struct NormedConvolution {
  std::shared_ptr<Conv2d> convolution;
  std::shared_ptr<BatchNorm2d> norm;

  at::Tensor forward(const at::Tensor& map) const {
    return norm->forward(convolution->forward(map));
  }
  void Fold() const { norm->FoldInto(*convolution); }
};

// `downsample` of a bottleneck.
class Shortcut final : public Layer {
 public:
  Shortcut(int64_t in, int64_t out)
      : layers_({Add<Conv2d>("0", Conv2dOptions::Square(in, out, 1, 2).NoBias()),
                 Add<BatchNorm2d>("1", out, kEpsilon)}) {}

  at::Tensor forward(const at::Tensor& map) const { return layers_.forward(map); }

  void Prepare(const Placement& placement) override {
    layers_.Fold();
    Layer::Prepare(placement);
  }

 private:
  const NormedConvolution layers_;
};

// He et al. 2016, figure 5, with the stride in the 3x3 convolution; halves the map.
class Bottleneck final : public Layer {
 public:
  Bottleneck(int64_t in, int64_t channels)
      : narrow_({Add<Conv2d>("conv1", Conv2dOptions::Square(in, channels, 1).NoBias()),
                 Add<BatchNorm2d>("bn1", channels, kBottleneckEpsilon)}),
        middle_({Add<Conv2d>("conv2", Conv2dOptions::Square(channels, channels, 3, 2, 1).NoBias()),
                 Add<BatchNorm2d>("bn2", channels, kBottleneckEpsilon)}),
        widen_({Add<Conv2d>("conv3",
                            Conv2dOptions::Square(channels, kExpansion * channels, 1).NoBias()),
                Add<BatchNorm2d>("bn3", kExpansion * channels, kBottleneckEpsilon)}),
        downsample_(Add<Shortcut>("downsample", in, kExpansion * channels)) {}

  at::Tensor forward(const at::Tensor& map) const {
    at::Tensor narrow = Relu(narrow_.forward(map), prepared());
    narrow = Relu(middle_.forward(narrow), prepared());
    return Relu(widen_.forward(narrow) + downsample_->forward(map), prepared());
  }

  void Prepare(const Placement& placement) override {
    for (const NormedConvolution* layers : {&narrow_, &middle_, &widen_}) layers->Fold();
    Layer::Prepare(placement);
  }

 private:
  const NormedConvolution narrow_;
  const NormedConvolution middle_;
  const NormedConvolution widen_;
  const std::shared_ptr<Shortcut> downsample_;
};

// `visual_tokens.tokens`: pixels [N, 3, H, W] -> a map [N, channels, H/16, W/16].
class TokenStem final : public Layer {
 public:
  TokenStem(int64_t stem_channels, int64_t channels)
      : stem_(Add<LayerList<Conv2d>>("stem")), stage_(Add<LayerList<Bottleneck>>("stage")) {
    stem_->Emplace(Conv2dOptions::Square(3, stem_channels, 3, 1, 1));
    int64_t in = stem_channels;
    for (int64_t i = 0; i < kBottlenecks; ++i) {
      stage_->Emplace(in, stem_channels);
      in = kExpansion * stem_channels;
    }
    transition_ = Add<Conv2d>("transition", Conv2dOptions::Square(in, channels, 1));
  }

  at::Tensor forward(const at::Tensor& pixels) const {
    at::Tensor map =
        at::max_pool2d((*stem_)[0].forward(pixels), /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    for (const auto& bottleneck : stage_->list()) map = bottleneck->forward(map);
    return transition_->forward(map);
  }

 private:
  const std::shared_ptr<LayerList<Conv2d>> stem_;
  const std::shared_ptr<LayerList<Bottleneck>> stage_;
  std::shared_ptr<Conv2d> transition_;
};

class VisualTokens final : public Layer {
 public:
  VisualTokens(int64_t stem_channels, int64_t channels)
      : tokens_(Add<TokenStem>("tokens", stem_channels, channels)) {}

  // [N, tokens, channels]
  at::Tensor forward(const at::Tensor& pixels) const {
    return tokens_->forward(pixels.to(activations())).flatten(2).transpose(1, 2);
  }

 private:
  const std::shared_ptr<TokenStem> tokens_;
};

// One of the two reductions whose covariance is taken: `conv_dr_block.0`, `conv_dr_block.1`.
class Reduction final : public Layer {
 public:
  Reduction(int64_t in, int64_t out)
      : layers_({Add<Conv2d>("0", Conv2dOptions::Square(in, out, 1).NoBias()),
                 Add<BatchNorm2d>("1", out, kEpsilon)}) {}

  // map [N, in, height, width] -> FP32 [N, out, places], of mean zero over the places.
  at::Tensor forward(const at::Tensor& map) const {
    const at::Tensor reduced = Relu(layers_.forward(map), prepared()).flatten(2).to(at::kFloat);
    return reduced - reduced.mean(2, /*keepdim=*/true);
  }

  void Prepare(const Placement& placement) override {
    layers_.Fold();
    Layer::Prepare(placement);
  }

 private:
  const NormedConvolution layers_;
};

// `representation`: the cross-covariance of two reductions of the visual tokens.
//   So-ViT, section 3.2.
class CrossCovariance final : public Layer {
 public:
  CrossCovariance(int64_t in, const std::array<int64_t, 2>& out)
      : conv_dr_block_(Add<Pair>("conv_dr_block", in, out)) {}

  // map [N, in, height, width] -> FP32 [N, out[0], out[1]].
  at::Tensor forward(const at::Tensor& map) const {
    const at::Tensor rows = conv_dr_block_->first->forward(map);
    const at::Tensor columns = conv_dr_block_->second->forward(map);
    return at::matmul(rows, columns.mT()) / static_cast<double>(rows.size(2));
  }

 private:
  struct Pair final : Layer {
    Pair(int64_t in, const std::array<int64_t, 2>& out)
        : first(Add<Reduction>("0", in, out[0])), second(Add<Reduction>("1", in, out[1])) {}
    const std::shared_ptr<Reduction> first;
    const std::shared_ptr<Reduction> second;
  };
  const std::shared_ptr<Pair> conv_dr_block_;
};

// `normalization`: the square root of a matrix's largest singular value in its place, the rest
// divided by that root.
//   So-ViT, section 3.3: singular value power normalisation with one singular value, which one step
//   of power iteration from the learned `weight` approximates.
class SingularValueNorm final : public Layer {
 public:
  explicit SingularValueNorm(int64_t rows) : weight_(AddParameter("weight", {rows})) {}

  // FP32 [N, rows, columns] -> the same shape.
  at::Tensor forward(const at::Tensor& matrix) const {
    const at::Tensor start = weight_.to(at::kFloat).unsqueeze(1);
    const at::Tensor right = Unit(at::matmul(matrix.mT(), start));  // [N, columns, 1]
    const at::Tensor left = Unit(at::matmul(matrix, right));        // [N, rows, 1]
    const at::Tensor largest = at::matmul(at::matmul(left.mT(), matrix), right);
    const at::Tensor root = largest.sqrt();
    const at::Tensor direction = at::matmul(left, right.mT());
    return root * direction + (matrix - largest * direction) / (root + 1e-5);
  }

 private:
  static at::Tensor Unit(const at::Tensor& columns) {
    return columns / columns.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
  }

  at::Tensor weight_;
};

// `classifier`: the class token's logits, and those of the second-order statistics, added.
class SecondOrderClassifier final : public Layer {
 public:
  SecondOrderClassifier(int64_t channels, const std::array<int64_t, 2>& covariance, int64_t classes)
      : representation_(Add<CrossCovariance>("representation", channels, covariance)),
        normalization_(Add<SingularValueNorm>("normalization", covariance[0])),
        visual_fc_(Add<Linear>("visual_fc", covariance[0] * covariance[1], classes)),
        cls_fc_(Add<Linear>("cls_fc", channels, classes)) {
    visual_fc_->KeepPrecision();
    cls_fc_->KeepPrecision();
  }

  // tokens [N, grid.tokens(), channels], the class token first -> [N, classes].
  at::Tensor forward(const at::Tensor& tokens, const Grid& grid) const {
    const at::Tensor map = TokensToMap(tokens, grid.height, grid.width);
    const at::Tensor visual = normalization_->forward(representation_->forward(map)).flatten(1);
    return visual_fc_->forward(visual.to(activations())) + cls_fc_->forward(tokens.select(1, 0));
  }

 private:
  const std::shared_ptr<CrossCovariance> representation_;
  const std::shared_ptr<SingularValueNorm> normalization_;
  const std::shared_ptr<Linear> visual_fc_;
  const std::shared_ptr<Linear> cls_fc_;
};

class SoVit final : public PlainBackbone {
 public:
  SoVit(const SoVitConfig& config, const ModelDescription& description)
      : PlainBackbone({.stride = kStride,
                       .channels = config.channels,
                       .norm_epsilon = kEpsilon,
                       .published = {.preprocessing = {.crop_fraction = 0.875}}},
                      description) {
    AddStem<VisualTokens>("visual_tokens", config.stem_channels, config.channels);
    AddPrefixToken("cls_token");
    AddSinePositions("pos_embed");
    AddBlocks(config.depth, config.mlp_ratio * config.channels,
              {.heads = config.heads, .qkv_bias = false});
    AddNorm();
    if (info().num_classes > 0) {
      classifier_ = Add<SecondOrderClassifier>("classifier", config.channels, config.covariance,
                                               info().num_classes);
    }
  }

  WeightNames weight_names() const override {
    return {.ignored_suffixes = {"num_batches_tracked"}};
  }

  void Initialise(uint64_t seed) override {
    PlainBackbone::Initialise(seed);
    if (!classifier_) return;
    // The power iteration starts in a random direction.
    const std::string start = "classifier.normalization.weight";
    RandomStream(seed, start).FillNormal(named_parameters()[start], 1);
  }

 private:
  at::Tensor Classify(const at::Tensor& tokens) const override {
    return classifier_ ? classifier_->forward(norm().forward(tokens), grid())
                       : PlainBackbone::Classify(tokens);
  }

  std::shared_ptr<SecondOrderClassifier> classifier_;  // null where the model gives features
};

}  // namespace

void RegisterSoVit(BackboneRegistry& registry) {
  registry.Add(Variant<SoVit>(
      "so_vit_7", "So-ViT-7, 5.5 M parameters and a table of positions",
      SoVitConfig{
          .channels = 256, .depth = 7, .heads = 4, .mlp_ratio = 2, .covariance = {48, 24}}));
}

}  // namespace fovea::models
