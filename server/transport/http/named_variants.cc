#include "server/transport/http/named_variants.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

// NAME or NAME/VERSION.
v1::Variant VariantOf(std::string_view model, std::string_view attention) {
  const size_t slash = model.find('/');
  v1::Variant variant;
  variant.set_model_name(std::string(model.substr(0, slash)));
  if (slash != model.npos) variant.set_model_version(std::string(model.substr(slash + 1)));
  variant.set_attention(std::string(attention));
  return variant;
}

}  // namespace

bool NamedVariants::Take(std::string_view name, std::string_view value) {
  if (name == "model") {
    models_.emplace_back(value);
  } else if (name == "attention") {
    attentions_.emplace_back(value);
  } else if (name == "variant") {
    const size_t colon = std::min(value.find(':'), value.size());  // no name of a model has one
    variants_.push_back(
        VariantOf(value.substr(0, colon), value.substr(std::min(colon + 1, value.size()))));
  } else {
    return false;
  }
  return true;
}

absl::Status NamedVariants::AddTo(google::protobuf::RepeatedPtrField<v1::Variant>* variants,
                                  bool own_before_one, std::string_view reason) const {
  const bool own = attentions_.empty() || (own_before_one && attentions_.size() == 1);
  const size_t all = variants_.size() + models_.size() * (attentions_.size() + (own ? 1 : 0));
  if (all > static_cast<size_t>(limits::kMaxComparedVariants)) {
    return InvalidArgument(reason,
                           absl::StrCat("models and attentions make ", all, " variants, more than ",
                                        limits::kMaxComparedVariants));
  }
  for (const v1::Variant& variant : variants_) *variants->Add() = variant;
  for (const std::string& model : models_) {
    if (own) *variants->Add() = VariantOf(model, "");
    for (const std::string& attention : attentions_) *variants->Add() = VariantOf(model, attention);
  }
  return absl::OkStatus();
}

}  // namespace fovea
