// A model that computes nothing: its output is a copy of the bytes of its input. What a request to
// it costs is what the server costs. It has no weights, so its version folder may be empty.
#include <ATen/ATen.h>

#include <cstring>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/backbones/register.h"

namespace fovea::models {
namespace {

constexpr int64_t kImageSide = 224;

class Identity final : public Backbone {
 public:
  explicit Identity(const ModelDescription& description) {
    TORCH_CHECK_VALUE(description.attention.empty(), "identity has no attention");
    TORCH_CHECK_VALUE(description.num_classes <= 0, "identity has no classes");
    info_.backbone = description.backbone;
    info_.image_height = description.image_height > 0 ? description.image_height : kImageSide;
    info_.image_width = description.image_width > 0 ? description.image_width : kImageSide;
    info_.pixel_input = PixelInput::kBytes;
    info_.preprocessing = {.resize_mode = ResizeMode::kSquash, .crop_fraction = 1};
    info_.outputs = {{"output", {info_.image_height, info_.image_width, 3}, ElementType::kByte}};
  }

  // The copy is what a model does too: its output is its own memory, whatever becomes of the
  // input's. On the CPU not Tensor::clone: that would share so small a copy among threads, at the
  // cost of more.
  std::vector<at::Tensor> forward(const at::Tensor& pixels,
                                  ForwardContext& /*context*/) const override {
    TORCH_CHECK_VALUE(pixels.is_contiguous(), "identity takes contiguous pixels");
    if (!pixels.is_cpu()) return {pixels.clone()};
    at::Tensor copy = at::empty_like(pixels);
    std::memcpy(copy.mutable_data_ptr(), pixels.const_data_ptr(), pixels.nbytes());
    return {copy};
  }

  const ModelInfo& info() const override { return info_; }
  void Initialise(uint64_t /*seed*/) override {}

 private:
  ModelInfo info_;
};

}  // namespace

void RegisterIdentity(BackboneRegistry& registry) {
  const auto make = [](const ModelDescription& description) {
    return std::make_shared<Identity>(description);
  };
  registry.Add({"identity", "computes nothing: returns its input's bytes, for measuring the server",
                make, make});
}

}  // namespace fovea::models
