#include "model_zoo/backbones/backbone_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_zoo/layers/linear.h"
#include "model_zoo/quoted.h"
#include "model_zoo/weights/safetensors_writer.h"

namespace fovea::models {
namespace {

constexpr size_t kMaxListed = 3;  // names in an error
constexpr std::string_view kInputScales = ".input_scales";

// With `to` in place of `from` where that first stands; absent where it stands nowhere.
std::optional<std::string> WithPart(const std::string& name, std::string_view from,
                                    std::string_view to) {
  const size_t at = name.find(from);
  if (at == name.npos) return std::nullopt;
  return std::string(name).replace(at, from.size(), to);
}

std::string OwnName(const WeightNames& names, std::string name) {
  for (const auto& [from, to] : names.renamed) {
    if (name.starts_with(from)) {
      name.replace(0, from.size(), to);
      break;
    }
  }
  for (const auto& [published, own] : names.renamed_parts) {
    if (const auto changed = WithPart(name, published, own)) return *changed;
  }
  return name;
}

std::string PublishedName(const WeightNames& names, std::string name) {
  for (const auto& [published, own] : names.renamed_parts) {
    if (const auto changed = WithPart(name, own, published)) {
      name = *changed;
      break;
    }
  }
  for (const auto& [from, to] : names.renamed) {
    if (name.starts_with(to)) return name.replace(0, to.size(), from);
  }
  return name;
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

// Tensors of a backbone by their own names, and where a file has them.
using Filled = std::map<std::string, at::Tensor>;
using Stored = std::map<std::string, const StoredTensor*>;

// Everything that a weight file fills: parameters and buffers, by own name.
Filled Fillable(const Backbone& backbone) {
  Filled tensors;
  for (const auto& parameter : backbone.named_parameters()) {
    tensors.emplace(parameter.key(), parameter.value());
  }
  for (const auto& buffer : backbone.named_buffers()) {
    tensors.emplace(buffer.key(), buffer.value());
  }
  return tensors;
}

// Asks the layers that declared a backbone's tensors about them.
class Owners {
 public:
  explicit Owners(const Backbone& backbone)
      : backbone_(backbone), modules_(backbone.named_modules()) {}

  // `stored` in the shape that its owner needs, or as it is.
  at::Tensor Resized(const std::string& own, const at::Tensor& stored) const {
    return Of(own).Resized(Parameter(own), stored);
  }
  bool FollowsSize(const std::string& own) const { return Of(own).FollowsSize(Parameter(own)); }

 private:
  const Layer& Of(const std::string& own) const {
    const size_t dot = own.rfind('.');
    if (dot == own.npos) return backbone_;
    return dynamic_cast<const Layer&>(*modules_[own.substr(0, dot)]);
  }
  // Without a dot: all of it.
  static std::string Parameter(const std::string& own) { return own.substr(own.rfind('.') + 1); }

  const Backbone& backbone_;
  const torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> modules_;
};

// A model with such a number in it answers nothing, or nothing where the number decides: thresholds
// hide it. at::aminmax looks at each number once, with all threads, and passes NaN on.
void CheckFinite(const StoredTensor& source, const at::Tensor& read) {
  if (read.numel() == 0) return;
  const auto [least, most] = at::aminmax(read);
  TORCH_CHECK_VALUE(std::isfinite(least.item<float>()) && std::isfinite(most.item<float>()),
                    "tensor ", Quoted(source.name), " holds a NaN or an infinity");
}

// Fills all of `fillable`, which `stored` has.
void Fill(const SafetensorsFile& file, const Backbone& backbone, const Filled& fillable,
          const Stored& stored) {
  const Owners owners(backbone);
  Filled resized;
  for (const auto& [own, tensor] : fillable) {
    const StoredTensor& source = *stored.at(own);
    at::IntArrayRef sizes = source.shape;
    if (tensor.sizes() != sizes) {
      at::Tensor read = at::empty(source.shape, at::kFloat);
      file.ReadInto(source, read);
      CheckFinite(source, read);
      sizes = resized.emplace(own, owners.Resized(own, read)).first->second.sizes();
    }
    TORCH_CHECK_VALUE(tensor.sizes() == sizes, "tensor ", Quoted(source.name), " is ",
                      at::IntArrayRef(source.shape), ", ", backbone.info().backbone, " needs ",
                      tensor.sizes());
  }
  for (const auto& [own, tensor] : fillable) {
    if (const auto other = resized.find(own); other != resized.end()) {
      tensor.detach().copy_(other->second);
      continue;
    }
    const at::Tensor filled = tensor.detach();
    file.ReadInto(*stored.at(own), filled);
    CheckFinite(*stored.at(own), filled);
    // As many positions may lie on another map.
    const at::Tensor other = owners.Resized(own, filled);
    if (!other.is_alias_of(filled)) filled.copy_(other);
  }
  file.CheckUnchanged();
}

// The linear layer whose input scales `own` names; null where there is none of this name.
Linear* LayerOfScales(const Backbone& backbone, const std::string& own) {
  if (!own.ends_with(kInputScales)) return nullptr;
  const auto modules = backbone.named_modules();
  const auto* const module = modules.find(own.substr(0, own.size() - kInputScales.size()));
  return module != nullptr ? dynamic_cast<Linear*>(module->get()) : nullptr;
}

// Only where the name may be one: modules are listed for each.
bool ReadInputScales(const SafetensorsFile& file, const StoredTensor& stored,
                     const std::string& own, const Backbone& backbone) {
  Linear* const layer = LayerOfScales(backbone, own);
  if (layer == nullptr) return false;
  const at::Tensor scales = at::empty(stored.shape, at::kFloat);
  file.ReadInto(stored, scales);
  try {
    layer->SetInputScales(scales);
  } catch (const c10::ValueError& error) {
    C10_THROW_ERROR(ValueError, "tensor " + Quoted(stored.name) + ": " + error.msg());
  }
  return true;
}

}  // namespace

void LoadWeights(const SafetensorsFile& file, Backbone& backbone) {
  const WeightNames names = backbone.weight_names();
  const Filled fillable = Fillable(backbone);
  const std::string& model = backbone.info().backbone;
  Stored stored;
  std::vector<std::string> unknown;
  for (const StoredTensor& tensor : file.tensors()) {
    if (Ignored(names, tensor.name)) {
      continue;
    }
    const std::string own = OwnName(names, tensor.name);
    if (ReadInputScales(file, tensor, own, backbone)) continue;
    if (!fillable.contains(own) || !stored.emplace(own, &tensor).second) {
      unknown.push_back(tensor.name);
    }
  }
  std::vector<std::string> missing;
  for (const auto& [own, tensor] : fillable) {
    if (!stored.contains(own)) {
      missing.push_back(PublishedName(names, own));
    }
  }
  TORCH_CHECK_VALUE(missing.empty(), "the weights lack what ", model, " needs: ", List(missing));
  TORCH_CHECK_VALUE(unknown.empty(), "the weights hold what ", model,
                    " does not know: ", List(unknown));
  Fill(file, backbone, fillable, stored);
}

FittedWeights LoadFittingWeights(const SafetensorsFile& file, Backbone& backbone) {
  // What a backbone's names begin with behind a head (headed_backbone.h).
  constexpr std::string_view kBehindHead = "backbone.";
  const WeightNames names = backbone.weight_names();
  const Filled fillable = Fillable(backbone);
  const auto begins = [&](const auto& list, const auto& name_of) {
    return std::ranges::any_of(
        list, [&](const auto& one) { return name_of(one).starts_with(kBehindHead); });
  };
  const bool of_headed = begins(
      file.tensors(), [](const StoredTensor& one) -> const std::string& { return one.name; });
  const bool headed =
      begins(fillable, [](const auto& one) -> const std::string& { return one.first; });
  const Owners owners(backbone);
  const at::NoGradGuard no_grad;
  FittedWeights fitted;
  std::set<std::string> filled;
  for (const StoredTensor& stored : file.tensors()) {
    std::string name = stored.name;
    if (headed && !of_headed) name.insert(0, kBehindHead);
    if (!headed && of_headed && name.starts_with(kBehindHead)) name.erase(0, kBehindHead.size());
    if (Ignored(names, name)) continue;
    const std::string own = OwnName(names, name);
    const auto target = fillable.find(own);
    at::Tensor read;
    if (target != fillable.end()) {
      read = at::empty(stored.shape, at::kFloat);
      file.ReadInto(stored, read);
      try {
        read = owners.Resized(own, read);
      } catch (const c10::ValueError&) {  // of another number of tokens, which cannot change
        read.reset();
      }
    }
    if (!read.defined() || read.sizes() != target->second.sizes()) {
      fitted.dropped.push_back(stored.name);
      continue;
    }
    target->second.detach().copy_(read);
    filled.insert(own);
    fitted.kept.push_back(stored.name);
  }
  for (const auto& [own, tensor] : fillable) {
    if (!filled.contains(own)) fitted.fresh.push_back(PublishedName(names, own));
  }
  file.CheckUnchanged();
  return fitted;
}

void LoadSizedWeights(const SafetensorsFile& file, Backbone& plan) {
  const WeightNames names = plan.weight_names();
  const Owners owners(plan);
  Filled fillable = Fillable(plan);
  std::erase_if(fillable, [&](const auto& tensor) { return !owners.FollowsSize(tensor.first); });
  Stored stored;
  for (const StoredTensor& tensor : file.tensors()) {
    if (!Ignored(names, tensor.name)) stored.emplace(OwnName(names, tensor.name), &tensor);
  }
  Fill(file, plan, fillable, stored);
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
  for (const auto& buffer : backbone.named_buffers()) {
    tensors.emplace_back(PublishedName(names, buffer.key()), buffer.value());
  }
  for (const auto& module : backbone.named_modules()) {
    const auto* const linear = dynamic_cast<const Linear*>(module.value().get());
    if (linear == nullptr || !linear->input_scales().defined()) continue;
    tensors.emplace_back(PublishedName(names, module.key() + std::string(kInputScales)),
                         linear->input_scales());
  }
  metadata.emplace("format", "pt");
  WriteSafetensors(path, tensors, dtype, metadata);
}

}  // namespace fovea::models
