// The names of models and versions: what a request, a folder and a spec may call them
// (docs/faults.md, row 25).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace fovea {

// [A-Za-z0-9._-]{1,128}, and neither "." nor "..".
bool IsModelName(std::string_view name);

// A positive decimal number without sign, spaces or leading zeros that fits an int64.
std::optional<int64_t> ParseVersion(std::string_view text);

// What a version can be called besides its number: a model's name that begins with a letter.
bool IsVersionLabel(std::string_view text);

// INVALID_ARGUMENT where no model or version can be called so, by number or by label; the bad name
// is not repeated. An empty version is fine: it stands for the latest.
absl::Status CheckModelName(std::string_view name);
absl::Status CheckVersion(std::string_view version);

}  // namespace fovea
