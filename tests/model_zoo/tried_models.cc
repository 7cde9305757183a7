#include "tests/model_zoo/tried_models.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string_view>

#include "model_zoo/attention/registry/attentions.h"
#include "model_zoo/weights/random.h"

namespace fovea::models {
namespace {

// What is tried of an attention: its name alone, or with each of these behind it.
std::vector<std::string> Options(std::string_view name) {
  if (name == "dense") return {"", ":temperature=0.5"};
  if (name == "knn") return {":k=0.5", ":k=0.5,exact", ":k=100"};
  for (const char* windowed : {"shifted_window", "axial", "pale", "cross_shaped"}) {
    if (name == windowed) return {"", "/knn:k=0.5"};
  }
  if (name == "ska") return {"", ":activation=gelu,scale=1"};
  return {""};
}

}  // namespace

const std::vector<std::string>& TriedAttentions() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> all;
    const auto add = [&all](std::string_view name) {
      for (const std::string& options : Options(name)) all.push_back(std::string(name) + options);
    };
    for (const CoreEntry& core : Cores()) add(core.name);
    for (const AttentionModuleEntry& module : AttentionModules()) add(module.name);
    return all;
  }();
  return texts;
}

void Enliven(Backbone& backbone, const std::string& attention) {
  // Without a softmax a sum over all keys grows with their number, block by block.
  const double key = attention.find("activation") == attention.npos ? 1 : 0.1;
  const auto fill = [key](const std::string& name, const at::Tensor& tensor) {
    const RandomStream random(7, name);
    if (name.ends_with(".k") || name.ends_with(".cls_k")) {
      random.FillNormal(tensor, key);
    } else if (tensor.dim() > 1 && tensor.size(0) > 1) {
      const auto inputs = static_cast<double>(tensor.numel() / tensor.size(0));
      random.FillNormal(tensor, 1 / std::sqrt(inputs));
    } else {  // positions and class tokens, [1, ...], too
      random.FillNormal(tensor, 0.2);
      const bool factor = name.ends_with("weight") || name.ends_with("running_var") ||
                          name.ends_with("scale") || name.find("gamma") != name.npos;
      if (factor && tensor.dim() == 1) tensor.abs_().add_(1);
    }
  };
  for (const auto& parameter : backbone.named_parameters()) {
    fill(parameter.key(), parameter.value());
  }
  for (const auto& buffer : backbone.named_buffers()) fill(buffer.key(), buffer.value());
}

double Distance(const at::Tensor& actual, const at::Tensor& expected) {
  return ((actual - expected).abs().max() / expected.std()).item<double>();
}

at::Tensor Noise(const at::Tensor& like, uint64_t seed) {
  return at::randn(like.sizes(), at::make_generator<at::CPUGeneratorImpl>(seed));
}

}  // namespace fovea::models
