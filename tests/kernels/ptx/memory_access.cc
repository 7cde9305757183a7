// Loads, stores and asynchronous copies (PTX ISA 9.7.9, ld, st and cp.async).
#include <cstring>
#include <string>

#include "tests/kernels/ptx/apply.h"
#include "tests/kernels/ptx/block.h"
#include "tests/kernels/ptx/failure.h"
#include "tests/kernels/ptx/opcode.h"

namespace fovea::ptx {
namespace {

enum class Memory { kGlobal, kShared, kLocal, kParameter, kGeneric };

Memory MemoryAt(uint64_t generic) {
  switch (generic >> kWindowShift) {
    case kSharedWindow >> kWindowShift:
      return Memory::kShared;
    case kLocalWindow >> kWindowShift:
      return Memory::kLocal;
    case kParameterWindow >> kWindowShift:
      return Memory::kParameter;
    default:
      return Memory::kGlobal;
  }
}

uint64_t WithoutWindow(uint64_t generic) {
  return MemoryAt(generic) == Memory::kGlobal ? generic
                                              : generic & ((uint64_t{1} << kWindowShift) - 1);
}

template <Memory kMemory>
const std::byte* Read(Block& block, unsigned thread, uint64_t address, int bytes, uint32_t used) {
  switch (kMemory) {
    case Memory::kGlobal:
      return block.launch().global.At(thread, address, bytes);
    case Memory::kShared:
      return block.shared().Read(thread, address, bytes, used);
    case Memory::kLocal:
      return block.local().Read(thread, address, bytes, used);
    case Memory::kParameter:
      return block.launch().parameters.Read(thread, address, bytes);
    case Memory::kGeneric:
      break;
  }
  const uint64_t within = WithoutWindow(address);
  switch (MemoryAt(address)) {
    case Memory::kShared:
      return Read<Memory::kShared>(block, thread, within, bytes, used);
    case Memory::kLocal:
      return Read<Memory::kLocal>(block, thread, within, bytes, used);
    case Memory::kParameter:
      return Read<Memory::kParameter>(block, thread, within, bytes, used);
    default:
      return Read<Memory::kGlobal>(block, thread, within, bytes, used);
  }
}

template <Memory kMemory>
std::byte* Write(Block& block, unsigned thread, uint64_t address, int bytes) {
  switch (kMemory) {
    case Memory::kGlobal:
      return block.launch().global.At(thread, address, bytes);
    case Memory::kShared:
      return block.shared().Write(thread, address, bytes);
    case Memory::kLocal:
      return block.local().Write(thread, address, bytes);
    default:
      break;
  }
  const uint64_t within = WithoutWindow(address);
  switch (MemoryAt(address)) {
    case Memory::kShared:
      return Write<Memory::kShared>(block, thread, within, bytes);
    case Memory::kLocal:
      return Write<Memory::kLocal>(block, thread, within, bytes);
    case Memory::kGlobal:
      return Write<Memory::kGlobal>(block, thread, within, bytes);
    default:
      throw Violation(thread, "parameters are read-only");
  }
}

// A narrow value in a wider register is extended by its sign or zeros.
uint64_t Extended(Type type, const std::byte* from, int bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, bytes);
  if (IsSigned(type) && bytes < 8 && (bits >> (8 * bytes - 1) & 1) != 0) {
    bits |= ~uint64_t{0} << (8 * bytes);
  }
  return bits;
}

template <Memory kMemory>
void Load(Warp& warp, const Instruction& in, LaneMask lanes) {
  const int bytes = BytesOf(in.type);
  const int all = bytes * static_cast<int>(in.to.size());
  ForLanes(lanes, [&](unsigned lane) {
    const std::byte* from = Read<kMemory>(warp.block(), warp.ThreadOf(lane),
                                          warp.AddressOf(in, lane), all, in.used_bytes);
    for (const Operand& to : in.to) {
      warp.SetBits(to, lane, Extended(in.type, from, bytes));
      from += bytes;
    }
  });
}

template <Memory kMemory>
void Store(Warp& warp, const Instruction& in, LaneMask lanes) {
  const int bytes = BytesOf(in.type);
  const int values = static_cast<int>(in.from.size()) - 1;
  ForLanes(lanes, [&](unsigned lane) {
    std::byte* to =
        Write<kMemory>(warp.block(), warp.ThreadOf(lane), warp.AddressOf(in, lane), bytes * values);
    for (int i = 0; i < values; ++i) {
      const uint64_t bits = warp.Bits(in.from[i + 1], lane);
      std::memcpy(to + i * bytes, &bits, bytes);
    }
  });
}

void StartCopy(Warp& warp, const Instruction& in, LaneMask lanes) {
  ForLanes(lanes, [&](unsigned lane) {
    warp.block().StartCopy(warp.ThreadOf(lane), warp.AddressOf(in, lane, 0),
                           warp.AddressOf(in, lane, 1), in.count);
  });
}

void CommitCopies(Warp& warp, const Instruction&, LaneMask lanes) {
  ForLanes(lanes, [&](unsigned lane) { warp.block().CommitCopies(warp.ThreadOf(lane)); });
}

void AwaitCopies(Warp& warp, const Instruction& in, LaneMask lanes) {
  ForLanes(lanes, [&](unsigned lane) { warp.block().AwaitCopies(warp.ThreadOf(lane), in.count); });
}

std::optional<Decoded> DecodeCopy(Opcode& opcode) {
  if (!opcode.Take("async")) return std::nullopt;
  if (opcode.Take("commit_group")) return Decoded{&CommitCopies, "="};
  if (opcode.Take("wait_group")) return Decoded{&AwaitCopies, "=i"};
  if (!opcode.TakeOneOf({"cg", "ca"}) || !opcode.Take("shared") || !opcode.Take("global")) {
    return std::nullopt;
  }
  return Decoded{&StartCopy, "=aai"};
}

template <Memory kMemory>
Decoded AccessOf(bool load, Type type) {
  Decoded decoded;
  decoded.execute = load ? &Load<kMemory> : &Store<kMemory>;
  decoded.signature = load ? "w*=a" : "=aw*";
  decoded.type = type;
  return decoded;
}

}  // namespace

std::optional<Decoded> DecodeMemory(Opcode& opcode) {
  if (opcode.Is("cp")) return DecodeCopy(opcode);
  const bool load = opcode.Is("ld");
  if (!load && !opcode.Is("st")) return std::nullopt;
  const Type type = opcode.TakeType();
  opcode.TakeOneOf({"v2", "v4"});  // as many as there are operands
  if (load) opcode.Take("nc");     // a cache that is not coherent
  switch (opcode.TakeOneOf({"global", "shared", "local", "param"}).value_or(-1)) {
    case 0:
      return AccessOf<Memory::kGlobal>(load, type);
    case 1:
      return AccessOf<Memory::kShared>(load, type);
    case 2:
      return AccessOf<Memory::kLocal>(load, type);
    case 3:
      if (!load) return std::nullopt;
      return AccessOf<Memory::kParameter>(load, type);
    default:
      return AccessOf<Memory::kGeneric>(load, type);
  }
}

}  // namespace fovea::ptx
