// Writes safetensors, for the trainer and for tests.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fovea::models {

using NamedTensor = std::pair<std::string, at::Tensor>;

// Writes the tensors in their order, cast to `dtype` (kFloat, kHalf or kBFloat16), beside the
// target and renames: a reader sees the old file or the whole new one. A tensor with finite numbers
// that kHalf does not hold, a running variance for example, is written as kFloat, in front of the
// others. The same tensors give the same bytes. Throws c10::Error.
void WriteSafetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      c10::ScalarType dtype,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace fovea::models
