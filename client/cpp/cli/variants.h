// The models and attentions that commands measure, and what tables call them. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/types.h"
#include "client/cpp/variant.h"

namespace fovea::client {

// Each attention over each model; without any, the models as they are. `own_before_one`: of one
// attention, each model as it is before it. INVALID_ARGUMENT: a text names no model.
absl::StatusOr<std::vector<Variant>> VariantsOf(const std::vector<std::string>& models,
                                                const std::vector<std::string>& attentions,
                                                bool own_before_one);

// A variant beside others: its attention ("no attention" where it has none), with its model where
// `models`, everybody's, differ in name or version.
std::string VariantLabel(const ModelId& model, const std::string& attention,
                         const std::vector<ModelId>& models);

// The note that the attention time of the variant `name` is left out.
std::string AttentionLeftOutText(const std::string& name);

}  // namespace fovea::client
