#include "tests/kernels/ptx/launch.h"

#include "tests/kernels/ptx/device_memory.h"
#include "tests/kernels/ptx/failure.h"

namespace fovea::ptx {
namespace {

// What an H100 gives to one block (CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability").
constexpr int64_t kMostSharedBytes = 227 << 10;

std::vector<std::byte> PackArguments(const Program& program,
                                     const std::vector<Argument>& arguments) {
  if (arguments.size() != program.parameters.size()) {
    throw Failure(program.name + " takes " + std::to_string(program.parameters.size()) +
                  " arguments, not " + std::to_string(arguments.size()));
  }
  std::vector<std::byte> packed(program.parameter_bytes);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& parameter = program.parameters[i];
    if (static_cast<int64_t>(arguments[i].size()) != parameter.bytes) {
      throw Failure("argument " + std::to_string(i) + " of " + program.name + " has " +
                    std::to_string(arguments[i].size()) + " bytes, not " +
                    std::to_string(parameter.bytes));
    }
    std::memcpy(packed.data() + parameter.offset, arguments[i].data(), arguments[i].size());
  }
  return packed;
}

void CheckGrid(const Program& program, const Grid& grid) {
  if (grid.threads > program.max_threads) {
    throw Failure(std::to_string(grid.threads) + " threads, but " + program.name +
                  " is compiled for " + std::to_string(program.max_threads));
  }
  if (program.static_shared_bytes + grid.shared_bytes > kMostSharedBytes) {
    throw Failure(program.name + " needs more shared memory than a block can have: " +
                  std::to_string(program.static_shared_bytes + grid.shared_bytes) + " bytes");
  }
}

Counts CountsOf(const LaunchState& launch) {
  Counts counts;
  for (size_t i = 0; i < launch.program.code.size(); ++i) {
    if (launch.issued[i] == 0) continue;
    const std::string& opcode = launch.program.opcodes[launch.program.code[i].opcode];
    Counts::Opcode& of_opcode = counts.by_opcode[opcode];
    of_opcode.issued += launch.issued[i];
    of_opcode.executed += launch.executed[i];
  }
  counts.ldmatrix_extra_phases = launch.ldmatrix_extra_phases;
  return counts;
}

}  // namespace

int64_t Counts::Issued() const { return IssuedOf(""); }

int64_t Counts::IssuedOf(const std::string& beginning) const {
  int64_t sum = 0;
  for (const auto& [name, counts] : by_opcode) {
    if (name.starts_with(beginning)) sum += counts.issued;
  }
  return sum;
}

int64_t Counts::Executed() const {
  int64_t sum = 0;
  for (const auto& [name, counts] : by_opcode) sum += counts.executed;
  return sum;
}

void Counts::Add(const Counts& other) {
  for (const auto& [name, counts] : other.by_opcode) {
    by_opcode[name].issued += counts.issued;
    by_opcode[name].executed += counts.executed;
  }
  ldmatrix_extra_phases += other.ldmatrix_extra_phases;
}

Counts Launch(const Program& program, const Grid& grid, const std::vector<Argument>& arguments,
              const LaunchOptions& options) {
  CheckGrid(program, grid);
  std::vector<std::byte> packed = PackArguments(program, arguments);
  GlobalMemory global(DeviceMemory::Instance().ReachableFrom(packed));
  LaunchState state(program, grid, std::move(packed), std::move(global), options.most_instructions);
  Block block(state);
  for (int64_t i = 0; i < grid.blocks; ++i) block.Run(i);
  return CountsOf(state);
}

}  // namespace fovea::ptx
