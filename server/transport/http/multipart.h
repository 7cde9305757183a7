// Forms as curl -F and browsers send them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fovea {

struct FormPart {
  std::string name;
  std::string_view bytes;  // a part of the body
};

// The parts of a multipart/form-data body (RFC 7578 and RFC 2046, section 5.1.1). `content_type` is
// the request's, which names the boundary. INVALID_ARGUMENT request.form: it is no such body, a
// part has no name, or there are more than limits::kMaxFormParts.
absl::StatusOr<std::vector<FormPart>> ReadForm(std::string_view content_type,
                                               std::string_view body);

}  // namespace fovea
