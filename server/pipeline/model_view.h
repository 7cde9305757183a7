// What a loaded version tells of itself.
#pragma once

#include <string_view>

#include "model_zoo/model_description.h"
#include "server/core/model_catalog.h"
#include "server/repository/servable.h"

namespace fovea {

// Metadata of `model`, whose loaded form is described by `info` and runs on `device`
// (LaneDevice::name). `served_versions` is left to the repository.
ModelView DescribeServedModel(const VersionToLoad& model, const models::ModelInfo& info,
                              std::string_view device);

}  // namespace fovea
