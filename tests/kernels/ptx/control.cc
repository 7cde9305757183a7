// Branches, returns and barriers of a block (PTX ISA 9.7.12, 9.7.13).
#include "tests/kernels/ptx/opcode.h"

namespace fovea::ptx {

std::optional<Decoded> DecodeControl(Opcode& opcode) {
  if (opcode.Is("bra")) {
    opcode.Take("uni");
    return Decoded{nullptr, "=", Flow::kBranch};
  }
  if (opcode.Is("ret") || opcode.Is("exit")) return Decoded{nullptr, "=", Flow::kReturn};
  if (!opcode.Is("bar")) return std::nullopt;
  if (opcode.Take("sync")) return Decoded{nullptr, "=i", Flow::kBarrier};
  if (opcode.Take("red") && opcode.Take("or") && opcode.Take("pred")) {
    return Decoded{nullptr, "p=ip", Flow::kBarrier};
  }
  return std::nullopt;
}

}  // namespace fovea::ptx
