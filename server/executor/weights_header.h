// A weights file by itself, without the model that it is for.
#pragma once

#include <filesystem>

#include "absl/status/status.h"

namespace fovea {

// Reads the header of a safetensors file as a load does, and none of its numbers.
// FAILED_PRECONDITION model.load_failed, in the loader's words, where it is not valid.
absl::Status CheckWeightsHeader(const std::filesystem::path& file);

}  // namespace fovea
