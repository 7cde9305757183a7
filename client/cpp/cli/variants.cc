#include "client/cpp/cli/variants.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {

absl::StatusOr<std::vector<Variant>> VariantsOf(const std::vector<std::string>& models,
                                                const std::vector<std::string>& attentions,
                                                bool own_before_one) {
  const bool own = attentions.empty() || (own_before_one && attentions.size() == 1);
  std::vector<Variant> variants;
  for (const std::string& text : models) {
    auto model = ParseModel(text);
    if (!model.ok()) return model.status();
    if (own) variants.push_back({.model = *model});
    for (const std::string& attention : attentions) {
      variants.push_back({.model = *model, .attention = attention});
    }
  }
  return variants;
}

std::string VariantLabel(const ModelId& model, const std::string& attention,
                         const std::vector<ModelId>& models) {
  const std::string text = attention.empty() ? "no attention" : attention;
  const bool one_model = std::ranges::all_of(models, [&](const ModelId& other) {
    return other.name == models.front().name && other.version == models.front().version;
  });
  return one_model ? text : absl::StrCat(ModelText(model), ", ", text);
}

std::string AttentionLeftOutText(const std::string& name) {
  return absl::StrCat("The attention time of ", name,
                      " is left out: it would exceed compute, of which it is a part.");
}

}  // namespace fovea::client
