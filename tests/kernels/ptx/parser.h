// Makes a program of a kernel's PTX.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/kernels/ptx/program.h"

namespace fovea::ptx {

struct KernelText {
  std::string name;        // demangled
  std::string parameters;  // between the parentheses
  std::string directives;  // between the parameters and the body
  std::string body;        // between the braces
};

// `dynamic_shared`: names of the module's arrays of unknown size in shared memory.
// Throws SyntaxError with the kernel's name for what it does not know.
Program ParseKernel(const KernelText& kernel, const std::vector<std::string>& dynamic_shared);

}  // namespace fovea::ptx
