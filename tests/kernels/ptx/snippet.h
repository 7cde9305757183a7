// Runs a few lines of PTX, for tests of single instructions.
#pragma once
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/ptx/device_memory.h"
#include "tests/kernels/ptx/launch.h"
#include "tests/kernels/ptx/module.h"

namespace fovea::ptx {

// A kernel whose body begins with %tid.x in %r0 and the addresses of `in` and `out` in %rd0 and
// %rd1. It may use %p0 to %p9, %h0 to %h9 (16 bits), %r0 to %r49, %rd0 to %rd19, 1 KiB of shared
// memory, `shared`, and 64 bytes of local memory, `local`.
inline std::string KernelWith(const std::string& body) {
  return R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry Snippet(.param .u64 in, .param .u64 out)
.maxntid 128, 1, 1
{
  .reg .pred %p<10>;
  .reg .b16 %h<10>;
  .reg .b32 %r<50>;
  .reg .b64 %rd<20>;
  .shared .align 16 .b8 shared[1024];
  .local .align 16 .b8 local[64];
  mov.u32 %r0, %tid.x;
  ld.param.u64 %rd0, [in];
  ld.param.u64 %rd1, [out];
)" + body +
         "\n  ret;\n}\n";
}

// Runs the body in one block; what it writes to `out` is returned.
inline std::vector<uint32_t> RunSnippet(const std::string& body, std::vector<uint32_t> in,
                                        size_t outputs, unsigned threads = 32,
                                        const LaunchOptions& options = {}) {
  const DeviceVector<uint32_t> input(in.begin(), in.end());
  DeviceVector<uint32_t> output(outputs);
  Module module(KernelWith(body));
  Launch(module.Find("Snippet"), {1, threads, 0},
         {ArgumentOf(input.data()), ArgumentOf(output.data())}, options);
  return {output.begin(), output.end()};
}

// The result of `instruction` in one thread, from 32-bit operands in %r1, %r2, ... to %r10.
inline uint32_t Result(const std::string& instruction, const std::vector<uint32_t>& operands) {
  std::string body;
  for (size_t i = 0; i < operands.size(); ++i) {
    body +=
        "ld.global.u32 %r" + std::to_string(i + 1) + ", [%rd0+" + std::to_string(4 * i) + "];\n";
  }
  std::vector<uint32_t> in = operands;
  in.push_back(0);  // no allocation is empty
  return RunSnippet(body + instruction + "\nst.global.u32 [%rd1], %r10;", in, 1, 1).at(0);
}

inline uint32_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }
inline float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }

// The message of the std::exception that `run` throws; empty if it throws none.
inline std::string MessageOf(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace fovea::ptx
