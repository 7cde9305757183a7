// What a caller would rather have: the fields Accept and Accept-Encoding.
#pragma once

#include <optional>
#include <string_view>

namespace fovea {

// The weight in [0, 1] that `field` gives to `name`, a coding or a media type (RFC 9110, section
// 12.4.2): 1 where it gives none, 0 where that does not parse. Nothing where it does not name it;
// "*" stands for itself.
std::optional<double> AcceptedWeight(std::string_view field, std::string_view name);

// Whether a picture is to be sent in place of JSON: it is named, and not rather JSON.
bool WantsPng(std::string_view accept);

}  // namespace fovea
