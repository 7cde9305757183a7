// What stands behind a backbone and does a task: from the backbone's feature pyramid to the model's
// outputs. The classifier is the exception: each backbone has its own, with its published names.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_zoo/forward_context.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// How a parameter starts: normal with this deviation, uniform up to this bound on both sides, or
// this number everywhere.
struct ParameterInit {
  enum class Kind { kNormal, kUniform, kConstant };
  Kind kind = Kind::kNormal;
  double size = 0;
};

// Of weights that make `out` numbers of `in`: uniform, so that a signal keeps its size (Glorot and
// Bengio, AISTATS 2010).
ParameterInit GlorotUniform(int64_t in, int64_t out);

class Head : public Layer {
 public:
  // What the model gives for one image: what Finish returns.
  virtual std::vector<ModelInfo::Output> outputs() const = 0;

  // That it tells apart; as the site's, where that names a number.
  virtual int64_t num_classes() const = 0;
  // How many of them, from class 0 on, are the background: in labels.txt they are "background", and
  // no label of the data has their number.
  virtual int64_t background_classes() const { return 0; }

  // maps: one for each of the backbone's info().features, [N, channels, height, width], in the type
  // of the activations. Returns what Finish takes, [N, ...]; nothing when context.ShouldStop() said
  // so.
  virtual std::vector<at::Tensor> forward(const std::vector<at::Tensor>& maps,
                                          ForwardContext& context) const = 0;

  // How the parameter of this own name and shape starts before training, as the architecture's
  // authors say; nothing: as usual (Backbone::InitialiseAsUsual).
  virtual std::optional<ParameterInit> InitOf(const std::string& /*parameter*/,
                                              at::IntArrayRef /*shape*/) const {
    return std::nullopt;
  }

  // ModelInfo::replayable, of forward.
  virtual bool replayable() const { return true; }

  // Backbone::Finish, where it does anything.
  virtual bool finishes() const { return false; }
  virtual std::vector<at::Tensor> Finish(std::vector<at::Tensor> images,
                                         std::span<const ImageSize> /*contents*/) const {
    return images;
  }
};

// Where a head is asked to stand.
struct HeadSite {
  const ModelInfo& backbone;  // its features among it: at least one
  int64_t num_classes = 0;    // 0: the head's own number
  DetectionOptions detection;
  int64_t channels = 0;  // 0: as published
};

// Of each of these maps.
std::vector<int64_t> ChannelsOf(std::span<const ModelInfo::FeatureMap> maps);

// The width of the pyramid and the convolutions of a head there, published with `published`. Throws
// c10::ValueError in words where it is not between 1 and kMostHeadChannels.
int64_t WidthOf(const HeadSite& site, int64_t published);

// The classes of a detector there; where the site names no number COCO's as published: torchvision
// counts the numbers that COCO has left out too.
int64_t CocoClasses(const HeadSite& site);

struct HeadEntry {
  std::string name;
  std::string summary;  // for --help and the documents
  Task task = Task::kClassification;
  // Builds it in its trainable state, not yet filled. Throws c10::ValueError in words where it
  // cannot stand there. Null: the backbone's own classifier.
  std::function<std::shared_ptr<Head>(const HeadSite&)> make;
  // Head::background_classes before there is a head: who makes one for some labels has to know how
  // many classes that takes. Null: none.
  std::function<int64_t(const DetectionOptions&)> background_classes = nullptr;
};

}  // namespace fovea::models
