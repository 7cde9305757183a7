// The names under which experiments serve variants for a while. No folder's model has such a name.
#pragma once

#include <string_view>

namespace fovea {

inline constexpr std::string_view kVariantPrefix = "variant.";

inline bool IsVariantName(std::string_view model) { return model.starts_with(kVariantPrefix); }

}  // namespace fovea
