#include "model_zoo/heads/headed_backbone.h"

#include <c10/util/Exception.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/weights/random.h"

namespace fovea::models {
namespace {

constexpr char kBackbone[] = "backbone";
constexpr char kHead[] = "head";

// As detectors and segmenters are published: nothing of the picture is cut off.
Preprocessing OfWholePictures(Preprocessing backbones, Task task) {
  backbones.resize_mode = ResizeMode::kFit;
  backbones.interpolation = Interpolation::kBilinear;
  backbones.shorter_side = UsualSides(task).shorter;
  backbones.longer_side = UsualSides(task).longer;
  return backbones;
}

void Fill(const at::Tensor& tensor, const ParameterInit& start, const RandomStream& random) {
  switch (start.kind) {
    case ParameterInit::Kind::kNormal:
      return random.FillNormal(tensor, start.size);
    case ParameterInit::Kind::kUniform:
      return random.FillUniform(tensor, start.size);
    case ParameterInit::Kind::kConstant:
      return models::Fill(tensor, static_cast<float>(start.size));
  }
}

class HeadedBackbone final : public Backbone {
 public:
  HeadedBackbone(std::shared_ptr<Backbone> backbone, std::shared_ptr<Head> head,
                 const HeadEntry& entry)
      : backbone_(register_module(kBackbone, std::move(backbone))),
        head_(register_module(kHead, std::move(head))),
        info_(backbone_->info()) {
    info_.num_classes = head_->num_classes();
    info_.outputs = head_->outputs();
    info_.finishes = head_->finishes();
    info_.replayable = info_.replayable && head_->replayable();
    info_.preprocessing = OfWholePictures(info_.preprocessing, entry.task);
  }

  std::vector<at::Tensor> forward(const at::Tensor& pixels,
                                  ForwardContext& context) const override {
    const std::vector<at::Tensor> maps = backbone_->Features(pixels, context);
    if (maps.empty()) return {};
    context.EnterStage(kHead);
    return head_->forward(maps, context);
  }

  std::vector<at::Tensor> Finish(std::vector<at::Tensor> images,
                                 std::span<const ImageSize> contents) const override {
    return head_->Finish(std::move(images), contents);
  }

  std::vector<at::Tensor> Features(const at::Tensor& pixels,
                                   ForwardContext& context) const override {
    return backbone_->Features(pixels, context);
  }

  // A head's few linear layers stay in the activations' type.
  void Prepare(const Placement& placement) override {
    if (!head_->prepared()) head_->Prepare({placement.device, placement.dtype});
    Backbone::Prepare(placement);
  }

  const ModelInfo& info() const override { return info_; }

  const Head& head() const { return *head_; }

  WeightNames weight_names() const override {
    WeightNames names = backbone_->weight_names();
    const std::string prefix = std::string(kBackbone) + ".";
    for (WeightNames::Renamed& renamed : names.renamed) {
      renamed.published_prefix.insert(0, prefix);
      renamed.own_prefix.insert(0, prefix);
    }
    names.ignored_suffixes.push_back("num_batches_tracked");  // of a head's batch norms
    return names;
  }

  void Initialise(uint64_t seed) override {
    backbone_->Initialise(seed);
    for (const auto& parameter : head_->named_parameters()) {
      const std::string name = std::string(kHead) + "." + parameter.key();
      const std::optional<ParameterInit> start =
          head_->InitOf(parameter.key(), parameter.value().sizes());
      if (start) {
        Fill(parameter.value(), *start, RandomStream(seed, name));
      } else {
        InitialiseAsUsual(name, parameter.value(), seed);
      }
    }
    for (const auto& buffer : head_->named_buffers()) {
      InitialiseAsUsual(std::string(kHead) + "." + buffer.key(), buffer.value(), seed);
    }
  }

 private:
  const std::shared_ptr<Backbone> backbone_;
  const std::shared_ptr<Head> head_;
  ModelInfo info_;
};

}  // namespace

std::shared_ptr<Backbone> WithHead(std::shared_ptr<Backbone> backbone, const HeadEntry& head,
                                   const ModelDescription& description) {
  const ModelInfo& info = backbone->info();
  TORCH_CHECK_VALUE(!info.features.empty(), "the head '", head.name,
                    "' stands on feature maps, and ", info.backbone, " has none");
  std::shared_ptr<Head> made = head.make({.backbone = info,
                                          .num_classes = description.num_classes,
                                          .detection = description.detection,
                                          .channels = description.head_channels});
  return std::make_shared<HeadedBackbone>(std::move(backbone), std::move(made), head);
}

const Head* HeadOf(const Backbone& backbone) {
  const auto* headed = dynamic_cast<const HeadedBackbone*>(&backbone);
  return headed == nullptr ? nullptr : &headed->head();
}

}  // namespace fovea::models
