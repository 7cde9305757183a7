// Moves, packing and unpacking of registers, and addresses of other memories (PTX ISA 9.7.9, mov
// and cvta).
#include <algorithm>
#include <string>

#include "tests/kernels/ptx/apply.h"
#include "tests/kernels/ptx/failure.h"
#include "tests/kernels/ptx/opcode.h"

namespace fovea::ptx {
namespace {

constexpr auto kSame = []<class T>(T x) { return x; };

void MovePredicate(Warp& warp, const Instruction& in, LaneMask lanes) {
  warp.SetPredicate(in.to[0], lanes, warp.PredicateOf(in.from[0]));
}

uint64_t Below(int bytes, uint64_t bits) {
  return bytes == 8 ? bits : bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

// mov.b32 %r, {low, high} and mov.b32 {low, high}, %r: parts of equal width, the lowest first.
template <class T>
void PackOrUnpack(Warp& warp, const Instruction& in, LaneMask lanes) {
  const int parts = static_cast<int>(std::max(in.to.size(), in.from.size()));
  const int bytes = static_cast<int>(sizeof(T)) / parts;
  ForLanes(lanes, [&](unsigned lane) {
    uint64_t all = 0;
    for (size_t i = 0; i < in.from.size(); ++i) {
      const uint64_t part = warp.Bits(in.from[i], lane);
      all |= (in.from.size() == 1 ? part : Below(bytes, part)) << (8 * bytes * i);
    }
    if (in.to.size() == 1) return warp.SetBits(in.to[0], lane, all);
    for (size_t i = 0; i < in.to.size(); ++i) {
      warp.SetBits(in.to[i], lane, Below(bytes, all >> (8 * bytes * i)));
    }
  });
}

template <class T>
Decoded MoveOf(const char* signature) {
  Decoded decoded{&Unary<kSame, T, T>, signature};
  decoded.packed = &PackOrUnpack<T>;
  return decoded;
}

// kTo: to the memory's own address space; else to a generic address.
template <uint64_t kWindow, bool kTo>
void ConvertAddress(Warp& warp, const Instruction& in, LaneMask lanes) {
  ForLanes(lanes, [&](unsigned lane) {
    const uint64_t address = warp.Bits(in.from[0], lane);
    if (kTo && address >> kWindowShift != kWindow >> kWindowShift) {
      throw Violation(warp.ThreadOf(lane), "the address is of another memory");
    }
    warp.SetBits(in.to[0], lane, kTo ? address - kWindow : address + kWindow);
  });
}

template <uint64_t kWindow>
Decoded AddressConversion(bool to) {
  return {to ? &ConvertAddress<kWindow, true> : &ConvertAddress<kWindow, false>, "w=w"};
}

std::optional<Decoded> DecodeAddress(Opcode& opcode) {
  const bool to = opcode.Take("to");
  opcode.TakeType();
  switch (opcode.TakeOneOf({"global", "shared", "local", "param"}).value_or(-1)) {
    case 0:
      return AddressConversion<0>(to);
    case 1:
      return AddressConversion<kSharedWindow>(to);
    case 2:
      return AddressConversion<kLocalWindow>(to);
    case 3:
      return AddressConversion<kParameterWindow>(to);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Decoded> DecodeMove(Opcode& opcode) {
  if (opcode.Is("cvta")) return DecodeAddress(opcode);
  if (!opcode.Is("mov")) return std::nullopt;
  const Type type = opcode.TakeType();
  switch (BytesOf(type)) {
    case 0:
      return Decoded{&MovePredicate, "p=p"};
    case 2:
      return Decoded{&Unary<kSame, uint16_t, uint16_t>, "2=2"};
    case 4:
      return MoveOf<uint32_t>("4=4");
    case 8:
      return MoveOf<uint64_t>("8=8");
    default:
      return std::nullopt;
  }
}

}  // namespace fovea::ptx
