// torch.ops.fovea_models and torch.classes.fovea_models: the server's own loader and Prepare, from
// Python. (trainable.cc: what trains.)
#include <torch/custom_class.h>
#include <torch/library.h>

#include <mutex>
#include <string>
#include <vector>

#include "kernels/memory/pass_arena.h"
#include "model_zoo/attention/registry/attentions.h"
#include "model_zoo/bindings/contexts.h"
#include "model_zoo/bindings/json.h"
#include "model_zoo/bindings/run.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/load.h"

namespace fovea::models {

std::vector<at::Tensor> LoadAndRun(const ModelDescription& description, const at::Tensor& input) {
  const std::unique_ptr<Model> model = LoadModel(description);
  model->Prepare(input.device(), description.precision);
  ForwardContext context;
  return model->Run(input, context);
}

namespace {

// A loaded model that Python keeps: for measuring, and for tests that run one model often.
class PythonModel final : public torch::CustomClassHolder {
 public:
  PythonModel(const std::string& description, const std::string& device, bool prepared) {
    const ModelDescription parsed = DescriptionFromJson(description);
    model_ = LoadModel(parsed);
    if (prepared) {
      model_->Prepare(c10::Device(device), parsed.precision);
      if (c10::Device(device).is_cpu()) arena_ = std::make_unique<kernels::PassArena>();
    }
  }

  // In the model's arena, as a lane of the server runs it. Threads that find it taken do without.
  std::vector<at::Tensor> Run(const at::Tensor& input) const {
    ForwardContext context;
    const std::unique_lock in_arena(arena_mutex_, std::try_to_lock);
    if (arena_ == nullptr || !in_arena) return model_->Run(input, context);
    kernels::PassArena::Scope pass(*arena_, input);
    std::vector<at::Tensor> outputs = model_->Run(input, context);
    pass.Complete();
    return outputs;
  }

  // Of pictures that do not fill the input: `contents` is [height, width] of each, from its upper
  // left corner.
  std::vector<at::Tensor> RunPictures(const at::Tensor& input,
                                      const std::vector<std::vector<int64_t>>& contents) const {
    PicturesContext context(contents, input);
    return model_->Run(input, context);
  }

  std::vector<at::Tensor> Features(const at::Tensor& input) const {
    ForwardContext context;
    return model_->Features(input, context);
  }

  // Intermediate tensors, as the layers record them.
  NamedTensors Records(const at::Tensor& input) const {
    RecordingContext context;
    model_->Run(input, context);
    return context.records;
  }

  NamedTensors Maps(const at::Tensor& input) const {
    MapsContext context;
    model_->Run(input, context);
    return context.maps;
  }

  NamedTensors Measures(const at::Tensor& input) const {
    MeasuringContext context;
    model_->Run(input, context);
    return ByName(context.layers());
  }

  std::string Facts() const { return FactsToJson(model_->info(), model_->weight_bytes()); }

 private:
  std::unique_ptr<Model> model_;
  mutable std::mutex arena_mutex_;
  std::unique_ptr<kernels::PassArena> arena_;  // null: not prepared, or not for the CPU
};

std::vector<at::Tensor> RunDescription(const std::string& description, const at::Tensor& input) {
  return LoadAndRun(DescriptionFromJson(description), input);
}

std::vector<std::string> BackboneNames() {
  std::vector<std::string> names;
  for (const BackboneEntry& entry : Backbones()) {
    names.push_back(entry.name);
  }
  return names;
}

// Cores, then modules: what a description's attention may name.
std::vector<std::string> AttentionNames() {
  std::vector<std::string> names;
  for (const CoreEntry& entry : Cores()) names.emplace_back(entry.name);
  for (const AttentionModuleEntry& entry : AttentionModules()) names.emplace_back(entry.name);
  return names;
}

}  // namespace

TORCH_LIBRARY(fovea_models, library) {
  library.def("run_description(str description, Tensor input) -> Tensor[]", RunDescription);
  library.def("backbones() -> str[]", BackboneNames);
  library.def("attentions() -> str[]", AttentionNames);
  library.class_<PythonModel>("Model")
      .def(torch::init<std::string, std::string, bool>(),
           "Loads a model from a description in JSON.",
           {torch::arg("description"), torch::arg("device") = "cpu", torch::arg("prepared") = true})
      .def("run", &PythonModel::Run)
      .def("run_pictures", &PythonModel::RunPictures)
      .def("features", &PythonModel::Features)
      .def("records", &PythonModel::Records)
      .def("maps", &PythonModel::Maps)
      .def("measures", &PythonModel::Measures)
      .def("facts", &PythonModel::Facts);
}

}  // namespace fovea::models
