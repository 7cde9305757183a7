// Types of PTX instructions ("Types" in the PTX ISA manual, section 5.2), and lanes of a warp.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fovea::ptx {

inline constexpr unsigned kLanes = 32;
using LaneMask = uint32_t;
inline constexpr LaneMask kAllLanes = 0xFFFFFFFFu;

enum class Type : uint8_t {
  kPred,
  kB8,
  kU8,
  kS8,
  kB16,
  kU16,
  kS16,
  kF16,
  kBf16,
  kB32,
  kU32,
  kS32,
  kF32,
  kF16x2,
  kBf16x2,
  kB64,
  kU64,
  kS64,
  kF64
};

// "u32" to kU32.
std::optional<Type> TypeNamed(std::string_view name);

// Bytes of one value; 0 for predicates, which are one mask of a warp's lanes.
int BytesOf(Type type);

bool IsSigned(Type type);  // of integers
bool IsInteger(Type type);

// Calls body(lane) for each lane of the mask, in ascending order.
template <class Body>
inline void ForLanes(LaneMask lanes, const Body& body) {
  if (lanes == kAllLanes) {  // a loop that compilers vectorise
    for (unsigned lane = 0; lane < kLanes; ++lane) body(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) body(static_cast<unsigned>(std::countr_zero(lanes)));
}

}  // namespace fovea::ptx
