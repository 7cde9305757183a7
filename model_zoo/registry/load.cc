#include "model_zoo/registry/load.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/did_you_mean.h"
#include "kernels/memory/cpu_allocator.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/heads/headed_backbone.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/quoted.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/weights/safetensors.h"

namespace fovea::models {
namespace {

const BackboneEntry& KnownBackbone(const std::string& name) {
  const BackboneEntry* entry = FindBackbone(name);
  TORCH_CHECK_VALUE(entry != nullptr, "there is no backbone '", name, "'",
                    DidYouMean(name, Backbones(), &BackboneEntry::name));
  return *entry;
}

// The head that the description asks for.
const HeadEntry& FindHead(const ModelDescription& description, std::span<const HeadEntry> heads) {
  if (description.head.empty()) {
    const auto usual = std::ranges::find(heads, description.task, &HeadEntry::task);
    TORCH_CHECK_VALUE(usual != heads.end(), "there is no head for ",
                      NamesOf(description.task).in_words);
    return *usual;
  }
  const auto named = std::ranges::find(heads, description.head, &HeadEntry::name);
  TORCH_CHECK_VALUE(named != heads.end(), "there is no head ", Quoted(description.head),
                    DidYouMean(description.head, heads, &HeadEntry::name));
  TORCH_CHECK_VALUE(named->task == description.task, "the head '", named->name, "' is for ",
                    NamesOf(named->task).in_words, ", and the task is ",
                    NamesOf(description.task).in_words);
  return *named;
}

at::ScalarType ActivationType(Precision precision) {
  switch (precision) {
    case Precision::kInt8:
      return Int8ActivationType();
    case Precision::kBf16:
      return at::kBFloat16;
    case Precision::kFp16:
      return at::kHalf;
    case Precision::kFp32:
      break;
  }
  return at::kFloat;
}

at::ScalarType ScalarType(ElementType type) {
  switch (type) {
    case ElementType::kByte:
      return at::kByte;
    case ElementType::kInt64:
      return at::kLong;
    case ElementType::kFloat:
      break;
  }
  return at::kFloat;
}

std::string Text(const ImageSize& size) {
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

// How a description becomes a backbone, at its own size or at another.
class Recipe {
 public:
  // Throws c10::ValueError in words where there is no such backbone or head.
  Recipe(const ModelDescription& description, std::span<const HeadEntry> heads)
      : description_(description),
        entry_(KnownBackbone(description.backbone)),
        head_(FindHead(description, heads)) {
    TORCH_CHECK_VALUE(!description.vit || entry_.takes_vit_sizes, "the sizes 'vit' are for the ",
                      "backbone 'vit', and not for ", description.backbone);
  }

  // At its own size, filled. Once.
  std::shared_ptr<Backbone> Load() {
    std::shared_ptr<Backbone> backbone = Build(description_);
    if (description_.random_weights_seed) {
      const at::NoGradGuard no_grad;
      backbone->Initialise(*description_.random_weights_seed);
    } else if (!backbone->parameters().empty()) {
      TORCH_CHECK_VALUE(!description_.weights.empty(),
                        "the model has neither weights nor a seed for random ones");
      LoadWeights(weights_.emplace(description_.weights), *backbone);
    }
    CheckFurtherSizes(backbone->info());
    return backbone;
  }

  // What Load would give at `size`, prepared as `loaded` is, with which it shares its weights.
  std::shared_ptr<Backbone> Plan(const ImageSize& size, const Backbone& loaded,
                                 const Placement& placement) const try {
    ModelDescription description = description_;
    description.image_height = size.height;
    description.image_width = size.width;
    std::shared_ptr<Backbone> plan = Build(description);
    {
      const at::NoGradGuard no_grad;
      if (description.random_weights_seed) plan->Initialise(*description.random_weights_seed);
      if (weights_) LoadSizedWeights(*weights_, *plan);
    }
    TORCH_CHECK_VALUE(plan->info().outputs == loaded.info().outputs,
                      "its outputs follow from its input size");
    plan->eval();
    const c10::InferenceMode inference;
    plan->ShareWeights(loaded);
    plan->Prepare(placement);
    return plan;
  } catch (const c10::ValueError& error) {
    C10_THROW_ERROR(ValueError,
                    description_.backbone + " cannot run at " + Text(size) + ": " + error.msg());
  }

 private:
  void CheckFurtherSizes(const ModelInfo& info) const {
    std::set<ImageSize> sizes = {{info.image_height, info.image_width}};
    for (const ImageSize& size : description_.further_sizes) {
      TORCH_CHECK_VALUE(size.height > 0 && size.width > 0, Text(size), " is no input size");
      TORCH_CHECK_VALUE(sizes.insert(size).second, "the input size ", Text(size),
                        " is listed twice, or the model's own");
    }
    TORCH_CHECK_VALUE(description_.further_sizes.size() <= kMaxFurtherSizes,
                      "a model runs at no more than ", kMaxFurtherSizes,
                      " input sizes besides its own");
  }

  std::shared_ptr<Backbone> Build(const ModelDescription& description) const {
    if (head_.make == nullptr) {
      TORCH_CHECK_VALUE(description.head_channels == 0,
                        "a classifier is as wide as its backbone: channels are for the heads of "
                        "detection and segmentation");
      return entry_.make(description);
    }
    ModelDescription bare = description;
    bare.num_classes = ModelDescription::kNoClasses;
    return WithHead(entry_.make(bare), head_, description);
  }

  const ModelDescription description_;
  const BackboneEntry& entry_;
  const HeadEntry head_;
  std::optional<SafetensorsFile> weights_;  // stays open: plans are made of the same file
};

class ZooModel final : public Model {
 public:
  ZooModel(const ModelDescription& description, std::span<const HeadEntry> heads)
      : recipe_(std::make_unique<Recipe>(description, heads)),
        backbone_(recipe_->Load()),
        info_(backbone_->info()) {
    info_.further_sizes = description.further_sizes;
    backbone_->eval();  // batch norms take their running statistics, prepared or not
    for (const at::Tensor& parameter : backbone_->parameters()) {
      info_.parameters += parameter.numel();
    }
    weight_bytes_ = backbone_->WeightBytes();
    plans_.push_back({{info_.image_height, info_.image_width}, backbone_});
    if (info_.further_sizes.empty()) recipe_.reset();
  }

  const ModelInfo& info() const override { return info_; }

  void Prepare(c10::Device device, Precision precision) override {
    TORCH_CHECK_VALUE(precision != Precision::kFp16 || !device.is_cpu(), info_.backbone,
                      " cannot run in FP16 on the CPU, which has FP32, BF16 and INT8");
    TORCH_CHECK_VALUE(precision != Precision::kInt8 || device.is_cpu(), info_.backbone,
                      " cannot run in INT8 on a GPU, which has FP32, BF16 and FP16");
    const Placement placement{device, ActivationType(precision), precision == Precision::kInt8};
    device_ = device;
    {
      const c10::InferenceMode inference;
      backbone_->Prepare(placement);
    }
    weight_bytes_ = backbone_->WeightBytes();
    for (const ImageSize& size : info_.further_sizes) {
      plans_.push_back({size, recipe_->Plan(size, *backbone_, placement)});
      weight_bytes_ += plans_.back().backbone->WeightBytes();
    }
    recipe_.reset();
  }

  std::vector<at::Tensor> RunBatch(const at::Tensor& pixels,
                                   ForwardContext& context) const override {
    const c10::InferenceMode inference;
    std::vector<at::Tensor> images = PlanOf(pixels).forward(pixels.to(device_), context);
    if (!info_.finishes) return AsDescribed(std::move(images));
    for (at::Tensor& image : images) image = image.contiguous();
    return images;
  }

  std::vector<at::Tensor> Finish(std::vector<at::Tensor> images, const ImageSize& input,
                                 std::span<const ImageSize> contents) const override {
    if (!info_.finishes) return images;
    const c10::InferenceMode inference;
    const auto plan = std::ranges::find(plans_, input, &Plan::size);
    TORCH_CHECK_VALUE(plan != plans_.end(), info_.backbone, " does not run at ", Text(input));
    return AsDescribed(plan->backbone->Finish(std::move(images), contents));
  }

  std::vector<at::Tensor> Features(const at::Tensor& pixels,
                                   ForwardContext& context) const override {
    const c10::InferenceMode inference;
    std::vector<at::Tensor> maps = PlanOf(pixels).Features(pixels.to(device_), context);
    for (at::Tensor& map : maps) map = map.to(at::kFloat).contiguous();
    return maps;
  }

  int64_t weight_bytes() const override { return weight_bytes_; }

 private:
  struct Plan {
    ImageSize size;
    std::shared_ptr<const Backbone> backbone;
  };

  // Throws c10::ValueError in words where the model does not take such pixels.
  const Backbone& PlanOf(const at::Tensor& pixels) const {
    const bool bytes = info_.pixel_input == PixelInput::kBytes;
    const int64_t rows = bytes ? 1 : 2, channels = bytes ? 3 : 1;
    auto plan = plans_.end();
    if (pixels.scalar_type() == (bytes ? at::kByte : at::kFloat) && pixels.dim() == 4 &&
        pixels.size(channels) == 3) {
      plan = std::ranges::find(plans_, ImageSize{pixels.size(rows), pixels.size(rows + 1)},
                               &Plan::size);
    }
    TORCH_CHECK_VALUE(plan != plans_.end(), info_.backbone, " takes ", Taken(), ", not ",
                      pixels.scalar_type(), " ", pixels.sizes());
    TORCH_CHECK_VALUE(pixels.size(0) > 0, "a batch holds at least one image");
    return *plan->backbone;
  }

  // `outputs`, if there are any, in their types and contiguous.
  std::vector<at::Tensor> AsDescribed(std::vector<at::Tensor> outputs) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = outputs[i].to(ScalarType(info_.outputs[i].type)).contiguous();
    }
    return outputs;
  }

  // "FP32 [N, 3, 224, 224]", or "... or [N, 3, 256, 192]".
  std::string Taken() const {
    std::string taken = info_.pixel_input == PixelInput::kBytes ? "UINT8 " : "FP32 ";
    for (const Plan& plan : plans_) {
      const std::string sides =
          std::to_string(plan.size.height) + ", " + std::to_string(plan.size.width);
      if (&plan != &plans_.front()) taken += " or ";
      taken += info_.pixel_input == PixelInput::kBytes ? "[N, " + sides + ", 3]"
                                                       : "[N, 3, " + sides + "]";
    }
    return taken;
  }

  std::unique_ptr<Recipe> recipe_;  // until Prepare, where plans are to be made
  const std::shared_ptr<Backbone> backbone_;
  ModelInfo info_;
  std::vector<Plan> plans_;  // the model's own first
  c10::Device device_ = c10::kCPU;
  int64_t weight_bytes_ = 0;
};

}  // namespace

std::shared_ptr<Backbone> LoadBackbone(const ModelDescription& description,
                                       std::span<const HeadEntry> heads) {
  return Recipe(description, heads).Load();
}

std::unique_ptr<Model> LoadModel(const ModelDescription& description,
                                 std::span<const HeadEntry> heads) {
  kernels::InstallCpuAllocator();
  return std::make_unique<ZooModel>(description, heads);
}

}  // namespace fovea::models
