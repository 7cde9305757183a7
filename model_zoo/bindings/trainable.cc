// torch.classes.fovea_models.Trainable: a model as the trainer has it, whose parameters are
// PyTorch's tensors and through which gradients flow.
#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/bindings/contexts.h"
#include "model_zoo/bindings/json.h"
#include "model_zoo/registry/load.h"

namespace fovea::models {
namespace {

// On the CPU and in fp32, at the model's own input size. Not prepared: it runs the layers one by
// one, and keeps for the gradients what autograd asks for.
class Trainable final : public torch::CustomClassHolder {
 public:
  explicit Trainable(const std::string& description)
      : backbone_(LoadBackbone(DescriptionFromJson(description))) {
    backbone_->eval();
    for (const at::Tensor& parameter : backbone_->parameters()) parameters_ += parameter.numel();
  }

  std::vector<at::Tensor> Run(const at::Tensor& input) const {
    ForwardContext context;
    return RunIn(context, input);
  }

  // As Model's.
  std::vector<at::Tensor> RunPictures(const at::Tensor& input,
                                      const std::vector<std::vector<int64_t>>& contents) const {
    PicturesContext context(contents, input);
    return RunIn(context, input);
  }

  std::vector<at::Tensor> Features(const at::Tensor& input) const {
    CheckPixels(input);
    ForwardContext context;
    return backbone_->Features(input, context);
  }

  NamedTensors Records(const at::Tensor& input) const {
    RecordingContext context;
    RunIn(context, input);
    return context.records;
  }

  NamedTensors Maps(const at::Tensor& input) const {
    MapsContext context;
    RunIn(context, input);
    return context.maps;
  }

  NamedTensors Measures(const at::Tensor& input) const {
    MeasuringContext context;
    RunIn(context, input);
    return ByName(context.layers());
  }

  // The model's own tensors: what an optimizer writes there, the next pass reads.
  NamedTensors Parameters() const {
    NamedTensors named;
    for (const auto& parameter : backbone_->named_parameters()) {
      named.insert(parameter.key(), parameter.value());
    }
    return named;
  }

  NamedTensors Buffers() const {
    NamedTensors named;
    for (const auto& buffer : backbone_->named_buffers()) {
      named.insert(buffer.key(), buffer.value());
    }
    return named;
  }

  void Train(bool on) { backbone_->train(on); }

  std::string Facts() const {
    ModelInfo info = backbone_->info();
    info.parameters = parameters_;
    return FactsToJson(info, backbone_->WeightBytes());
  }

 private:
  void CheckPixels(const at::Tensor& input) const {
    const ModelInfo& info = backbone_->info();
    const bool bytes = info.pixel_input == PixelInput::kBytes;
    const std::vector<int64_t> sides =
        bytes ? std::vector{info.image_height, info.image_width, int64_t{3}}
              : std::vector{int64_t{3}, info.image_height, info.image_width};
    const at::ScalarType type = bytes ? at::kByte : at::kFloat;
    TORCH_CHECK_VALUE(input.device().is_cpu() && input.scalar_type() == type && input.dim() == 4 &&
                          input.size(0) > 0 && input.sizes().slice(1) == at::IntArrayRef(sides),
                      info.backbone, ", not prepared, takes ", type, " [N, ", sides[0], ", ",
                      sides[1], ", ", sides[2], "] on the CPU, not ", input.scalar_type(), " ",
                      input.sizes(), " on ", input.device());
  }

  std::vector<at::Tensor> RunIn(ForwardContext& context, const at::Tensor& input) const {
    CheckPixels(input);
    const ModelInfo& info = backbone_->info();
    std::vector<at::Tensor> images = backbone_->forward(input, context);
    if (!info.finishes) return images;
    const ImageSize size{info.image_height, info.image_width};
    std::vector<ImageSize> contents;
    for (int64_t i = 0; i < input.size(0); ++i) contents.push_back(context.Content(i, size));
    return backbone_->Finish(std::move(images), contents);
  }

  const std::shared_ptr<Backbone> backbone_;
  int64_t parameters_ = 0;
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea_models, library) {
  library.class_<Trainable>("Trainable")
      .def(torch::init<std::string>(), "Loads a model from a description in JSON.",
           {torch::arg("description")})
      .def("run", &Trainable::Run)
      .def("run_pictures", &Trainable::RunPictures)
      .def("features", &Trainable::Features)
      .def("records", &Trainable::Records)
      .def("maps", &Trainable::Maps)
      .def("measures", &Trainable::Measures)
      .def("parameters", &Trainable::Parameters)
      .def("buffers", &Trainable::Buffers)
      .def("train", &Trainable::Train)
      .def("facts", &Trainable::Facts);
}

}  // namespace fovea::models
