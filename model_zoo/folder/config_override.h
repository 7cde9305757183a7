// The `config` parameter of RepositoryModelLoad: JSON of a Triton ModelConfig that replaces a few
// fields of the spec.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace fovea {

namespace v1 {
class ModelSpec;
}

// Replaces max_batch_size, dynamic_batching, instance_group (its kind, gpus and rate_limiter where
// they are given, its count) and version_policy in `spec` where `json` has them; `name`, if it is
// there, must be `model`. Ranges are not checked. INVALID_ARGUMENT: no such JSON, or a field that
// cannot be overridden; `spec` is then in an unspecified state.
absl::Status ApplyConfigOverride(std::string_view json, std::string_view model,
                                 v1::ModelSpec* spec);

}  // namespace fovea
