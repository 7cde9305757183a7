// The kernels that are shipped, as nvcc compiles them.
#pragma once
#include <string>
#include <vector>

#include "tests/kernels/ptx/launch.h"
#include "tests/kernels/ptx/module.h"

namespace fovea::ptx {

// Of the last architecture that is shipped, in all element types.
Module& ShippedKernels();

// The PTX of an operator's folder: "dense_attention".
std::string ShippedText(const std::string& folder);

// Launches the shipped kernel whose name contains `kernel`, and adds what it executed to
// TotalCounts().
void LaunchShipped(const std::string& kernel, const Grid& grid,
                   const std::vector<Argument>& arguments);

// Of all launches of this process.
Counts& TotalCounts();

}  // namespace fovea::ptx
