// From the spec's message to plain data, every number checked. Internal to the spec's parser.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "model_zoo/folder/model_spec.h"
#include "model_zoo/folder/spec_origin.h"

namespace fovea {

namespace v1 {
class ModelSpec;
}

// `folder` is the model's name; `origin` says where `message` was read, for the errors. Returns the
// first of `errors`, to which all of the message's are added, where there is one.
absl::StatusOr<ModelSpec> ToModelSpec(const v1::ModelSpec& message, const SpecOrigin& origin,
                                      std::string_view folder, SpecErrors& errors);

}  // namespace fovea
