// An architecture with its attention and its head, as the registry builds it: what Model wraps and
// the trainer trains.
//
// To train one:
//   // Seeded weights, or a file to start from.
//   std::shared_ptr<Backbone> backbone = LoadBackbone(description);  // model_zoo/registry/load.h
//   backbone->train();
//   ForwardContext context;
//   // Autograd through every operator; torch::optim takes backbone->parameters().
//   at::Tensor logits = backbone->forward(pixels, context).at(0);
//   ...
//   SaveWeights(path, *backbone, at::kHalf);  // model_zoo/backbones/backbone_weights.h
// named_parameters() carry the published names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_zoo/backbones/backbone_registry.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// How a published checkpoint's names become the module's own.
struct WeightNames {
  struct Renamed {
    std::string published_prefix;
    std::string own_prefix;
  };
  std::vector<Renamed> renamed;  // the first prefix that fits is replaced
  // Of tensors in the file that inference does not need.
  std::vector<std::string_view> ignored_suffixes;
  struct RenamedPart {
    std::string_view published;
    std::string_view own;
  };
  // Then the first part that a name has, where it first has it. Whole levels, ".a." or ".a.b.".
  std::vector<RenamedPart> renamed_parts;
};

class Backbone : public Layer {
 public:
  // pixels: FP32 [N, 3, H, W] normalised (or UINT8 [N, H, W, 3], see info().pixel_input), on the
  // parameters' device. Returns what Finish takes, [N, ...]: a classifier's one tensor per
  // info().outputs, in the type of the activations; nothing when context.ShouldStop() said so.
  // While training the outputs are the same as at inference, but for what batch norms do.
  virtual std::vector<at::Tensor> forward(const at::Tensor& pixels,
                                          ForwardContext& context) const = 0;

  // What is left to do for each image by itself, once the batch has run, such as suppressing boxes.
  // `images`: rows of forward's tensors, [n, ...], of any n images. `contents`: how much of each,
  // from its upper left corner, shows the picture. Returns one tensor per info().outputs, [n, ...].
  virtual std::vector<at::Tensor> Finish(std::vector<at::Tensor> images,
                                         std::span<const ImageSize> /*contents*/) const {
    return images;
  }

  // The feature pyramid, as Model::Features describes it, in the type of the activations; for
  // detection and segmentation. `pixels` and `context` as forward's; nothing when
  // context.ShouldStop() said so.
  virtual std::vector<at::Tensor> Features(const at::Tensor& pixels, ForwardContext& context) const;

  // Everything but `parameters`, which LoadModel counts.
  virtual const ModelInfo& info() const = 0;

  virtual WeightNames weight_names() const { return {}; }

  // Fills every parameter and buffer from the seed as the architecture's authors initialise it. The
  // same seed gives the same numbers on every machine and with any number of threads. By default
  // InitialiseAsUsual for every tensor.
  virtual void Initialise(uint64_t seed);

 protected:
  // What most vision transformers start from, for the tensor of this own name: matrices and tables
  // normal with deviation 0.02, convolutions normal with variance 2 / fan-out (He et al. 2015),
  // norms and running statistics as the identity, factors (`scale`) one, static keys (`k`, `cls_k`)
  // standard normal (Static Key Attention in Vision, algorithms 1 and 2), biases and tokens without
  // a weight's name zero.
  static void InitialiseAsUsual(const std::string& name, const at::Tensor& tensor, uint64_t seed);
};

// What a variant was published with, where its description says nothing else.
struct PublishedInput {
  int64_t side = 224;
  int64_t num_classes = 1000;  // 0: published without a head
  Preprocessing preprocessing;
};

// The facts that follow from both, the outputs of a classifier among them: logits, or, without
// classes, `channels` features.
ModelInfo DescribeClassifier(const ModelDescription& description, const PublishedInput& published,
                             int64_t channels);

// Throws c10::ValueError in words where the image does not divide into patches of `stride` pixels.
void CheckDivides(const ModelInfo& info, int64_t stride);

// The entry of a variant of `Architecture`, a backbone that is made from its Config and a
// description. `Shrunk(config)`, found beside Config, is the same at few channels and blocks
// (BackboneEntry::make_tiny).
template <typename Architecture, typename Config>
BackboneEntry Variant(std::string name, std::string summary, const Config& config) {
  const auto maker = [](const Config& made) {
    return [made](const ModelDescription& description) -> std::shared_ptr<Backbone> {
      return std::make_shared<Architecture>(made, description);
    };
  };
  return {std::move(name), std::move(summary), maker(config), maker(Shrunk(config))};
}

}  // namespace fovea::models
