// A kernel as the interpreter runs it: instructions over a warp's registers.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/kernels/ptx/type.h"

namespace fovea::ptx {

class Warp;

// A register of a warp. Constants and special registers are registers that nothing writes.
struct Operand {
  uint32_t index = 0;    // among the program's registers
  uint32_t offset = 0;   // of lane 0's value in the warp's register file, in bytes
  int bytes = 0;         // of a lane's value; 0: a predicate, one mask for all lanes
  bool negated = false;  // a predicate that is read as !%p
};

// How control goes on after an instruction.
enum class Flow : uint8_t { kNext, kBranch, kReturn, kCollective, kBarrier };

struct Instruction;
// Executes an instruction for the given lanes, of which there is at least one.
using Execute = void (*)(Warp&, const Instruction&, LaneMask lanes);

struct Instruction {
  Execute execute = nullptr;  // null for branches, returns and no-operations
  Flow flow = Flow::kNext;
  std::optional<Operand> guard;  // @%p: only lanes where it is true execute
  std::vector<Operand> to;
  std::vector<Operand> from;     // in the order of the text; of addresses, the base register
  std::vector<int64_t> offsets;  // of the addresses, in the order of the text
  Type type = Type::kB32;        // of memory accesses and conversions: an element's
  int count = 0;                 // an immediate operand: groups that cp.async waits for, bytes
  // From `from`, the operand that holds the lanes that take part in a collective; -1: all lanes.
  int mask_operand = -1;
  // Of a load's bytes, those that the compiler uses (.pragma "used_bytes_mask"); all by default.
  uint32_t used_bytes = ~uint32_t{0};
  uint32_t target = 0;  // of a branch
  uint32_t opcode = 0;  // index in Program::opcodes
  std::string text;
};

struct Constant {
  Operand at;
  uint64_t value;
};

enum class Special : uint8_t { kThread, kThreads, kBlock, kBlocks, kLane, kZero, kOne };
struct SpecialRegister {
  Operand at;
  Special what;
};

// Where a kernel's parameter lies in parameter memory.
struct Parameter {
  std::string name;
  int64_t bytes;
  int64_t offset;
};

struct Program {
  std::string name;  // demangled
  std::vector<Parameter> parameters;
  int64_t parameter_bytes = 0;
  unsigned max_threads = 1024;  // .maxntid
  int64_t static_shared_bytes = 0;
  int64_t local_bytes = 0;  // of one thread
  std::vector<Instruction> code;
  std::vector<std::string> opcodes;  // distinct ones, as "add.s32"
  std::vector<Constant> constants;
  std::vector<SpecialRegister> specials;
  std::map<uint32_t, std::string> register_names;  // by index
  uint32_t registers = 0;
  uint32_t register_bytes = 0;  // of a warp's register file
};

// Memories of PTX other than global memory begin here in the address space of their own, so that
// small wrong addresses are out of bounds.
inline constexpr uint64_t kMemoryBase = 0x400;

// Generic addresses of memories that are not global lie in windows of 2^48 bytes.
inline constexpr int kWindowShift = 48;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << kWindowShift;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << kWindowShift;
inline constexpr uint64_t kParameterWindow = uint64_t{3} << kWindowShift;

}  // namespace fovea::ptx
