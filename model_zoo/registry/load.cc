#include "model_zoo/registry/load.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/heads/headed_backbone.h"
#include "model_zoo/quoted.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/weights/safetensors.h"

namespace fovea::models {
namespace {

class ZooModel final : public Model {
 public:
  explicit ZooModel(std::shared_ptr<Backbone> backbone)
      : backbone_(std::move(backbone)), info_(backbone_->info()) {
    backbone_->eval();  // batch norms take their running statistics, prepared or not
    for (const at::Tensor& parameter : backbone_->parameters()) {
      info_.parameters += parameter.numel();
    }
    weight_bytes_ = backbone_->WeightBytes();
  }

  const ModelInfo& info() const override { return info_; }

  void Prepare(c10::Device device, Precision precision) override {
    const c10::InferenceMode inference;
    device_ = device;
    backbone_->Prepare({device, precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat});
    weight_bytes_ = backbone_->WeightBytes();
  }

  std::vector<at::Tensor> Run(const at::Tensor& pixels, ForwardContext& context) const override {
    const c10::InferenceMode inference;
    CheckPixels(pixels);
    std::vector<at::Tensor> outputs = backbone_->forward(pixels.to(device_), context);
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = outputs[i].to(info_.outputs[i].bytes ? at::kByte : at::kFloat).contiguous();
    }
    return outputs;
  }

  std::vector<at::Tensor> Features(const at::Tensor& pixels,
                                   ForwardContext& context) const override {
    const c10::InferenceMode inference;
    CheckPixels(pixels);
    std::vector<at::Tensor> maps = backbone_->Features(pixels.to(device_), context);
    for (at::Tensor& map : maps) map = map.to(at::kFloat).contiguous();
    return maps;
  }

  int64_t weight_bytes() const override { return weight_bytes_; }

 private:
  void CheckPixels(const at::Tensor& pixels) const {
    const int64_t height = info_.image_height;
    const int64_t width = info_.image_width;
    if (info_.pixel_input == PixelInput::kBytes) {
      TORCH_CHECK_VALUE(pixels.scalar_type() == at::kByte && pixels.dim() == 4 &&
                            pixels.size(1) == height && pixels.size(2) == width &&
                            pixels.size(3) == 3,
                        info_.backbone, " takes UINT8 [N, ", height, ", ", width, ", 3], not ",
                        pixels.scalar_type(), " ", pixels.sizes());
    } else {
      TORCH_CHECK_VALUE(pixels.scalar_type() == at::kFloat && pixels.dim() == 4 &&
                            pixels.size(1) == 3 && pixels.size(2) == height &&
                            pixels.size(3) == width,
                        info_.backbone, " takes FP32 [N, 3, ", height, ", ", width, "], not ",
                        pixels.scalar_type(), " ", pixels.sizes());
    }
    TORCH_CHECK_VALUE(pixels.size(0) > 0, "a batch holds at least one image");
  }

  const std::shared_ptr<Backbone> backbone_;
  ModelInfo info_;
  c10::Device device_ = c10::kCPU;
  int64_t weight_bytes_ = 0;
};

const char* TaskName(Task task) {
  switch (task) {
    case Task::kDetection:
      return "detection";
    case Task::kSegmentation:
      return "segmentation";
    case Task::kClassification:
      break;
  }
  return "classification";
}

// The head that the description asks for.
const HeadEntry& FindHead(const ModelDescription& description, std::span<const HeadEntry> heads) {
  if (description.head.empty()) {
    const auto usual = std::ranges::find(heads, description.task, &HeadEntry::task);
    TORCH_CHECK_VALUE(usual != heads.end(),
                      "only classification is available yet, not detection or segmentation");
    return *usual;
  }
  const auto named = std::ranges::find(heads, description.head, &HeadEntry::name);
  TORCH_CHECK_VALUE(named != heads.end(), "there is no head ", Quoted(description.head));
  TORCH_CHECK_VALUE(named->task == description.task, "the head '", named->name, "' is for ",
                    TaskName(named->task), ", and the task is ", TaskName(description.task));
  return *named;
}

std::shared_ptr<Backbone> Build(const BackboneEntry& entry, const HeadEntry& head,
                                const ModelDescription& description) {
  if (head.make == nullptr) return entry.make(description);
  ModelDescription bare = description;
  bare.num_classes = ModelDescription::kNoClasses;
  return WithHead(entry.make(bare), head, description);
}

}  // namespace

std::shared_ptr<Backbone> LoadBackbone(const ModelDescription& description,
                                       std::span<const HeadEntry> heads) {
  const BackboneEntry* entry = FindBackbone(description.backbone);
  TORCH_CHECK_VALUE(entry != nullptr, "there is no backbone '", description.backbone, "'");
  std::shared_ptr<Backbone> backbone = Build(*entry, FindHead(description, heads), description);
  if (description.random_weights_seed) {
    const at::NoGradGuard no_grad;
    backbone->Initialise(*description.random_weights_seed);
  } else if (!backbone->parameters().empty()) {
    TORCH_CHECK_VALUE(!description.weights.empty(),
                      "the model has neither weights nor a seed for random ones");
    LoadWeights(SafetensorsFile(description.weights), *backbone);
  }
  return backbone;
}

std::unique_ptr<Model> LoadModel(const ModelDescription& description,
                                 std::span<const HeadEntry> heads) {
  return std::make_unique<ZooModel>(LoadBackbone(description, heads));
}

}  // namespace fovea::models
