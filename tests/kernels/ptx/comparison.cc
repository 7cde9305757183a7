// Comparisons and selections (PTX ISA 9.7.6).
#include <cmath>
#include <string>

#include "tests/kernels/ptx/apply.h"
#include "tests/kernels/ptx/opcode.h"

namespace fovea::ptx {
namespace {

constexpr auto kEq = []<class T>(T a, T b) { return a == b; };
constexpr auto kLt = []<class T>(T a, T b) { return a < b; };
constexpr auto kLe = []<class T>(T a, T b) { return a <= b; };
constexpr auto kGt = []<class T>(T a, T b) { return a > b; };
constexpr auto kGe = []<class T>(T a, T b) { return a >= b; };
constexpr auto kNe = []<class T>(T a, T b) { return a != b; };
constexpr auto kNeOrdered = []<class T>(T a, T b) { return a < b || a > b; };
constexpr auto kNumbers = []<class T>(T a, T b) { return !std::isnan(a) && !std::isnan(b); };
constexpr auto kNaN = []<class T>(T a, T b) { return std::isnan(a) || std::isnan(b); };
// True where an operand is NaN, too.
template <auto kOrdered>
constexpr auto kOrNaN =
    []<class T>(T a, T b) { return std::isnan(a) || std::isnan(b) || kOrdered(a, b); };

template <class T>
Execute IntegerComparison(Opcode& opcode) {
  // lo, ls, hi and hs are the unsigned ones.
  switch (
      opcode.TakeOneOf({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"}).value_or(-1)) {
    case 0:
      return &Compare<kEq, T>;
    case 1:
      return &Compare<kNe, T>;
    case 2:
    case 6:
      return &Compare<kLt, T>;
    case 3:
    case 7:
      return &Compare<kLe, T>;
    case 4:
    case 8:
      return &Compare<kGt, T>;
    case 5:
    case 9:
      return &Compare<kGe, T>;
    default:
      return nullptr;
  }
}

template <class T>
Execute FloatComparison(Opcode& opcode) {
  switch (opcode.TakeOneOf({"eq", "ne", "lt", "le", "gt", "ge"}).value_or(-1)) {
    case 0:
      return &Compare<kEq, T>;
    case 1:
      return &Compare<kNeOrdered, T>;
    case 2:
      return &Compare<kLt, T>;
    case 3:
      return &Compare<kLe, T>;
    case 4:
      return &Compare<kGt, T>;
    case 5:
      return &Compare<kGe, T>;
    default:
      break;
  }
  switch (opcode.TakeOneOf({"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}).value_or(-1)) {
    case 0:
      return &Compare<kOrNaN<kEq>, T>;
    case 1:
      return &Compare<kOrNaN<kNe>, T>;
    case 2:
      return &Compare<kOrNaN<kLt>, T>;
    case 3:
      return &Compare<kOrNaN<kLe>, T>;
    case 4:
      return &Compare<kOrNaN<kGt>, T>;
    case 5:
      return &Compare<kOrNaN<kGe>, T>;
    case 6:
      return &Compare<kNumbers, T>;
    case 7:
      return &Compare<kNaN, T>;
    default:
      return nullptr;
  }
}

template <class T>
void Select(Warp& warp, const Instruction& in, LaneMask lanes) {
  T* const to = warp.Lanes<T>(in.to[0]);
  const T* const a = warp.Lanes<T>(in.from[0]);
  const T* const b = warp.Lanes<T>(in.from[1]);
  const LaneMask which = warp.PredicateOf(in.from[2]);
  ForLanes(lanes, [=](unsigned i) { to[i] = which >> i & 1 ? a[i] : b[i]; });
}

}  // namespace

std::optional<Decoded> DecodeComparison(Opcode& opcode) {
  const bool select = opcode.Is("selp");
  if (!select && !opcode.Is("setp")) return std::nullopt;
  const Type type = opcode.TakeType();
  const char letter = LetterOf(type);
  if (select) {
    const Execute execute = letter == '2'   ? &Select<uint16_t>
                            : letter == '4' ? &Select<uint32_t>
                                            : &Select<uint64_t>;
    if (letter == 'p') return std::nullopt;
    return Decoded{execute, {letter, '=', letter, letter, 'p'}};
  }
  const Execute execute =
      IsInteger(type)
          ? ForInteger(type, [&](auto t) { return IntegerComparison<decltype(t)>(opcode); })
          : ForFloat(type, [&](auto t) { return FloatComparison<decltype(t)>(opcode); });
  if (execute == nullptr) return std::nullopt;
  return Decoded{execute, {'p', '=', letter, letter}};
}

}  // namespace fovea::ptx
