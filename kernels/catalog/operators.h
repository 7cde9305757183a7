// Every operator there is, and what runs where: an explicit list.
#pragma once
#include <string>
#include <vector>

#include "kernels/choice/choice.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {

std::vector<Capabilities> AllOperators();

// One line of `fovea kernels`: what runs for an operator's tensors of one type on one device.
struct OperatorRow {
  std::string op;
  std::string device;          // "cpu" or "cuda"
  std::string type;            // "fp32", "bf16", "fp16", "fp64"
  std::string implementation;  // that runs in this build on this machine, FOVEA_FORCE_KERNEL aside
  std::string instructions;    // it uses here; "ATen's" for the reference
  // Why no faster one runs, or, where one does, that it has never run on such a device; else empty.
  std::string note;
};

// The CUDA kernels of this build: element types and architectures; both empty in builds without
// nvcc.
struct CudaBuild {
  std::vector<std::string> types;          // "fp32", "bf16", "fp16"
  std::vector<std::string> architectures;  // "sm_80", "sm_90a"
};
CudaBuild CudaBuildOfThisLibrary();

// What was chosen by measurement on this machine's CPU, by question (choice/choice.h): linear
// layers, which are measured where no other process has, and whatever else was ever asked.
std::vector<ChoiceAnswer> ChoiceTable();

// Facts of this build and this machine; no GPU is touched.
std::vector<OperatorRow> OperatorTable();

}  // namespace fovea::kernels
