// Runs a kernel of PTX on the host.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/kernels/ptx/block.h"
#include "tests/kernels/ptx/program.h"

namespace fovea::ptx {

// What a launch executed.
struct Counts {
  struct Opcode {
    int64_t issued = 0;    // to warps; a guard that is false for all lanes makes no difference
    int64_t executed = 0;  // by threads
    bool operator==(const Opcode&) const = default;
  };
  std::map<std::string, Opcode> by_opcode;  // "add.s32"
  // Times that shared memory serves rows of ldmatrix beyond the fewest possible: bank conflicts.
  int64_t ldmatrix_extra_phases = 0;

  int64_t Issued() const;
  int64_t Executed() const;
  // Of all opcodes that begin like that: "mma", "ldmatrix".
  int64_t IssuedOf(const std::string& beginning) const;
  void Add(const Counts& other);
};

// An argument of a kernel, as the host passes it.
using Argument = std::vector<std::byte>;
template <class T>
Argument ArgumentOf(const T& value) {
  Argument bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

struct LaunchOptions {
  // A launch that takes more instructions of its warps fails: it is taken to have no end.
  int64_t most_instructions = 50'000'000;
};

// Runs all blocks, one after the other. The kernel may touch those allocations of DeviceMemory into
// which its arguments point. Throws Failure where anything is wrong: the message says what, and
// names the kernel, the instruction, the thread and the block.
Counts Launch(const Program& program, const Grid& grid, const std::vector<Argument>& arguments,
              const LaunchOptions& options = {});

}  // namespace fovea::ptx
