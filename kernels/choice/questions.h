// Every question that is asked, and what those who ask share.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>

namespace fovea::kernels {

// Whether somebody asks a question of this name: what FOVEA_CHOOSE may force (README.md has all).
bool IsQuestion(std::string_view name);

// In names of questions: "fp32", "bf16", "fp16", "int8", "fp64".
std::string TypeName(c10::ScalarType type);

// Numbers between -1 and 1 of no order, for what is measured. Without a generator: a program's own
// are drawn as if nothing had been measured.
at::Tensor TypicalNumbers(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace fovea::kernels
