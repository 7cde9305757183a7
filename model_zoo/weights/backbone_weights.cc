#include "model_zoo/weights/backbone_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "model_zoo/quoted.h"
#include "model_zoo/weights/safetensors_writer.h"

namespace fovea::models {
namespace {

constexpr size_t kMaxListed = 3;  // names in an error

std::string OwnName(const WeightNames& names, const std::string& published) {
  for (const auto& [from, to] : names.renamed) {
    if (published.starts_with(from)) {
      return std::string(to) + published.substr(from.size());
    }
  }
  return published;
}

std::string PublishedName(const WeightNames& names, const std::string& own) {
  for (const auto& [from, to] : names.renamed) {
    if (own.starts_with(to)) {
      return std::string(from) + own.substr(to.size());
    }
  }
  return own;
}

bool Ignored(const WeightNames& names, const std::string& published) {
  return std::ranges::any_of(names.ignored_suffixes,
                             [&](std::string_view suffix) { return published.ends_with(suffix); });
}

std::string List(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMaxListed; ++i) {
    list += (i > 0 ? ", " : "") + Quoted(names[i]);
  }
  return names.size() > kMaxListed
             ? list + " and " + std::to_string(names.size() - kMaxListed) + " more"
             : list;
}

}  // namespace

void LoadWeights(const SafetensorsFile& file, Backbone& backbone) {
  const WeightNames names = backbone.weight_names();
  const auto parameters = backbone.named_parameters();
  const std::string& model = backbone.info().backbone;
  std::map<std::string, const StoredTensor*> stored;
  std::vector<std::string> unknown;
  for (const StoredTensor& tensor : file.tensors()) {
    if (Ignored(names, tensor.name)) {
      continue;
    }
    const std::string own = OwnName(names, tensor.name);
    if (!parameters.contains(own) || !stored.emplace(own, &tensor).second) {
      unknown.push_back(tensor.name);
    }
  }
  std::vector<std::string> missing;
  for (const auto& parameter : parameters) {
    if (!stored.contains(parameter.key())) {
      missing.push_back(PublishedName(names, parameter.key()));
    }
  }
  TORCH_CHECK_VALUE(missing.empty(), "the weights lack what ", model, " needs: ", List(missing));
  TORCH_CHECK_VALUE(unknown.empty(), "the weights hold what ", model,
                    " does not know: ", List(unknown));
  for (const auto& parameter : parameters) {
    const StoredTensor& tensor = *stored.at(parameter.key());
    TORCH_CHECK_VALUE(parameter.value().sizes() == at::IntArrayRef(tensor.shape), "tensor ",
                      Quoted(tensor.name), " is ", at::IntArrayRef(tensor.shape), ", ", model,
                      " needs ", parameter.value().sizes());
  }
  for (const auto& parameter : parameters) {
    file.ReadInto(*stored.at(parameter.key()), parameter.value().detach());
  }
  file.CheckUnchanged();
}

void SaveWeights(const std::filesystem::path& path, const Backbone& backbone, c10::ScalarType dtype,
                 std::map<std::string, std::string> metadata) {
  TORCH_CHECK(!backbone.prepared(),
              "weights are saved before Prepare, which gives up their published form");
  const WeightNames names = backbone.weight_names();
  std::vector<NamedTensor> tensors;
  for (const auto& parameter : backbone.named_parameters()) {
    tensors.emplace_back(PublishedName(names, parameter.key()), parameter.value());
  }
  metadata.emplace("format", "pt");
  WriteSafetensors(path, tensors, dtype, metadata);
}

}  // namespace fovea::models
