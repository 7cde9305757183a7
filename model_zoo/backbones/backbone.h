// An architecture with its attention and its head, as the registry builds it: what Model wraps and
// the trainer trains.
//
// To train one:
//   std::shared_ptr<Backbone> backbone = LoadBackbone(description);    // seeded weights, or a file
//   to start from backbone->train(); ForwardContext context; at::Tensor logits =
//   backbone->forward(pixels, context).at(0);      // autograd through every operator
//   ... backbone->named_parameters() carry the published names; torch::optim takes
//   backbone->parameters() ... SaveWeights(path, *backbone, at::kHalf); //
//   model_zoo/weights/backbone_weights.h
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model_zoo/forward_context.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// How a published checkpoint's names become the module's own.
struct WeightNames {
  struct Renamed {
    std::string_view published_prefix;
    std::string_view own_prefix;
  };
  std::vector<Renamed> renamed;  // the first prefix that fits is replaced
  std::vector<std::string_view>
      ignored_suffixes;  // tensors in the file that inference does not need
};

class Backbone : public Layer {
 public:
  // pixels: FP32 [N, 3, H, W] normalised (or UINT8 [N, H, W, 3], see info().pixel_input), on the
  // parameters' device. Returns one tensor per info().outputs, [N, ...], in the type of the
  // activations; nothing when context.ShouldStop() said so. While training the outputs are the same
  // as at inference.
  virtual std::vector<at::Tensor> forward(const at::Tensor& pixels,
                                          ForwardContext& context) const = 0;

  // Everything but `parameters`, which LoadModel counts.
  virtual const ModelInfo& info() const = 0;

  virtual WeightNames weight_names() const { return {}; }

  // Fills every parameter from the seed as the architecture's authors initialise it. The same seed
  // gives the same numbers on every machine and with any number of threads.
  virtual void Initialise(uint64_t seed) = 0;
};

// Builds the described backbone in its trainable state, fp32 on the CPU, and fills it: from the
// seed, or from the safetensors file. Throws c10::Error in words, as LoadModel does.
std::shared_ptr<Backbone> LoadBackbone(const ModelDescription& description);

}  // namespace fovea::models
