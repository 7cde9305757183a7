// Integer arithmetic, logic and shifts (PTX ISA 9.7.1, 9.7.8).
#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <string>
#include <type_traits>

#include "tests/kernels/ptx/apply.h"
#include "tests/kernels/ptx/failure.h"
#include "tests/kernels/ptx/opcode.h"

namespace fovea::ptx {
namespace {

// Arithmetic wraps around; in C++ that of unsigned integers alone does. Narrow ones are widened, as
// C++ would promote them to int.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

constexpr auto kAdd = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
};
constexpr auto kSub = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
};
constexpr auto kMulLow = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
};
constexpr auto kMadLow = []<class T>(T a, T b, T c) { return kAdd(kMulLow(a, b), c); };
constexpr auto kMin = []<class T>(T a, T b) { return std::min(a, b); };
constexpr auto kMax = []<class T>(T a, T b) { return std::max(a, b); };
constexpr auto kAnd = []<class T>(T a, T b) { return static_cast<T>(a & b); };
constexpr auto kOr = []<class T>(T a, T b) { return static_cast<T>(a | b); };
constexpr auto kXor = []<class T>(T a, T b) { return static_cast<T>(a ^ b); };
constexpr auto kNot = []<class T>(T a) { return static_cast<T>(~a); };
constexpr auto kNeg = []<class T>(T a) { return kSub(T{0}, a); };
constexpr auto kAbs = []<class T>(T a) { return a < T{0} ? kNeg(a) : a; };
constexpr auto kPopulation = []<class T>(T a) { return static_cast<uint32_t>(std::popcount(a)); };
constexpr auto kLeadingZeros = []<class T>(T a) {
  return static_cast<uint32_t>(std::countl_zero(a));
};

// Shifts by more than a register is wide leave nothing but the sign.
constexpr auto kShiftLeft = []<class T>(T a, uint32_t by) {
  return by < 8 * sizeof(T) ? static_cast<T>(static_cast<Wrapping<T>>(a) << by) : T{0};
};
constexpr auto kShiftRight = []<class T>(T a, uint32_t by) {
  if (by < 8 * sizeof(T)) return static_cast<T>(a >> by);
  return a < T{0} ? static_cast<T>(-1) : T{0};
};

constexpr auto kMulHigh32 = []<class T>(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >> 32);
};

// A GPU gives unspecified results where the divisor is zero.
template <bool kRemainder, class T>
void Divide(Warp& warp, const Instruction& in, LaneMask lanes) {
  T* const to = warp.Lanes<T>(in.to[0]);
  const T* const a = warp.Lanes<T>(in.from[0]);
  const T* const b = warp.Lanes<T>(in.from[1]);
  ForLanes(lanes, [&](unsigned i) {
    if (b[i] == 0) throw Violation(warp.ThreadOf(i), "divides by zero");
    const bool overflows =
        std::is_signed_v<T> && b[i] == static_cast<T>(-1) && a[i] == std::numeric_limits<T>::min();
    if (overflows) {
      to[i] = kRemainder ? T{0} : a[i];
    } else {
      to[i] = static_cast<T>(kRemainder ? a[i] % b[i] : a[i] / b[i]);
    }
  });
}

// Inserts `length` bits of a into b from bit `position` on (9.7.1, bfi).
void InsertBits(Warp& warp, const Instruction& in, LaneMask lanes) {
  const auto value = [&](int operand, unsigned i) {
    return warp.Lanes<uint32_t>(in.from[operand])[i];
  };
  ForLanes(lanes, [&](unsigned i) {
    const uint32_t position = value(2, i) & 0xFF;
    const uint32_t length = value(3, i) & 0xFF;
    const uint32_t field = length >= 32 ? ~0u : (1u << length) - 1;
    const uint32_t mask = position >= 32 ? 0u : field << position;
    const uint32_t inserted = position >= 32 ? 0u : value(0, i) << position;
    warp.Lanes<uint32_t>(in.to[0])[i] = (value(1, i) & ~mask) | (inserted & mask);
  });
}

// "4=44" for a 32-bit type and two operands.
std::string SignatureOf(Type type, int operands) {
  return std::string(1, LetterOf(type)) + "=" + std::string(operands, LetterOf(type));
}

template <auto kOp>
Execute BinaryOf(Type type) {
  return ForInteger(type, [](auto t) { return &Binary<kOp, decltype(t), decltype(t)>; });
}
template <auto kOp>
Execute UnaryOf(Type type) {
  return ForInteger(type, [](auto t) { return &Unary<kOp, decltype(t), decltype(t)>; });
}
template <auto kOp>
Execute ShiftOf(Type type) {
  return ForInteger(type, [](auto t) { return &Binary<kOp, decltype(t), decltype(t), uint32_t>; });
}

std::optional<Decoded> DecodeLogicOfPredicates(const Opcode& opcode) {
  if (opcode.Is("and")) return Decoded{&BinaryOfMasks<kAnd>, "p=pp"};
  if (opcode.Is("or")) return Decoded{&BinaryOfMasks<kOr>, "p=pp"};
  if (opcode.Is("xor")) return Decoded{&BinaryOfMasks<kXor>, "p=pp"};
  if (opcode.Is("not")) {
    return Decoded{[](Warp& warp, const Instruction& in, LaneMask lanes) {
                     warp.SetPredicate(in.to[0], lanes, ~warp.PredicateOf(in.from[0]));
                   },
                   "p=p"};
  }
  return std::nullopt;
}

std::optional<Decoded> DecodeProduct(Opcode& opcode) {
  const bool sum = opcode.Is("mad");
  if (!sum && !opcode.Is("mul")) return std::nullopt;
  const std::optional<int> part = opcode.TakeOneOf({"lo", "wide", "hi"});
  if (!part) return std::nullopt;
  const Type type = opcode.TakeType();
  if (*part == 0) {
    const auto make = [sum](auto t) -> Execute {
      using T = decltype(t);
      if (sum) return &Ternary<kMadLow, T, T>;
      return &Binary<kMulLow, T, T>;
    };
    return Decoded{ForInteger(type, make), SignatureOf(type, sum ? 3 : 2)};
  }
  if (*part == 2) {
    if (sum || BytesOf(type) != 4) return std::nullopt;
    return Decoded{type == Type::kS32 ? &Binary<kMulHigh32, int32_t, int32_t>
                                      : &Binary<kMulHigh32, uint32_t, uint32_t>,
                   SignatureOf(type, 2)};
  }
  const auto wide = [sum]<class T, class Wide>(T, Wide) -> Execute {
    constexpr auto kMul = [](T a, T b) {
      return kMulLow(static_cast<Wide>(a), static_cast<Wide>(b));
    };
    constexpr auto kMad = [](T a, T b, Wide c) {
      return kAdd(kMulLow(static_cast<Wide>(a), static_cast<Wide>(b)), c);
    };
    if (sum) return &Ternary<kMad, Wide, T, Wide>;
    return &Binary<kMul, Wide, T>;
  };
  const std::string sources(2, LetterOf(type));
  const auto signature = [&](char letter) {
    return std::string(1, letter) + "=" + sources + (sum ? std::string(1, letter) : "");
  };
  if (type == Type::kS32) return Decoded{wide(int32_t{}, int64_t{}), signature('8')};
  if (type == Type::kU32) return Decoded{wide(uint32_t{}, uint64_t{}), signature('8')};
  if (type == Type::kS16) return Decoded{wide(int16_t{}, int32_t{}), signature('4')};
  if (type == Type::kU16) return Decoded{wide(uint16_t{}, uint32_t{}), signature('4')};
  return std::nullopt;
}

std::optional<Decoded> DecodeCount(Opcode& opcode) {
  if (!opcode.Is("popc") && !opcode.Is("clz")) return std::nullopt;
  const bool population = opcode.Is("popc");
  const Type type = opcode.TakeType();
  if (type == Type::kB32) {
    return Decoded{population ? &Unary<kPopulation, uint32_t, uint32_t>
                              : &Unary<kLeadingZeros, uint32_t, uint32_t>,
                   "4=4"};
  }
  if (type == Type::kB64) {
    return Decoded{population ? &Unary<kPopulation, uint32_t, uint64_t>
                              : &Unary<kLeadingZeros, uint32_t, uint64_t>,
                   "4=8"};
  }
  return std::nullopt;
}

using Find = Execute (*)(Type);

std::optional<Decoded> DecodeOfOneType(Opcode& opcode) {
  static const std::map<std::string, Find> binary = {
      {"add", &BinaryOf<kAdd>},
      {"sub", &BinaryOf<kSub>},
      {"min", &BinaryOf<kMin>},
      {"max", &BinaryOf<kMax>},
      {"and", &BinaryOf<kAnd>},
      {"or", &BinaryOf<kOr>},
      {"xor", &BinaryOf<kXor>},
      {"div",
       [](Type type) {
         return ForInteger(type, [](auto t) { return &Divide<false, decltype(t)>; });
       }},
      {"rem", [](Type type) {
         return ForInteger(type, [](auto t) { return &Divide<true, decltype(t)>; });
       }}};
  static const std::map<std::string, Find> unary = {
      {"not", &UnaryOf<kNot>}, {"neg", &UnaryOf<kNeg>}, {"abs", &UnaryOf<kAbs>}};
  static const std::map<std::string, Find> shifts = {{"shl", &ShiftOf<kShiftLeft>},
                                                     {"shr", &ShiftOf<kShiftRight>}};
  const auto found = [&](const std::map<std::string, Find>& table) {
    const auto row = table.find(opcode.name());
    return row == table.end() ? Find{nullptr} : row->second;
  };
  if (const Find find = found(binary)) {
    const Type type = opcode.TakeType();
    if (type == Type::kPred) return DecodeLogicOfPredicates(opcode);
    if (!IsInteger(type)) return std::nullopt;
    return Decoded{find(type), SignatureOf(type, 2)};
  }
  if (const Find find = found(unary)) {
    const Type type = opcode.TakeType();
    if (type == Type::kPred) return DecodeLogicOfPredicates(opcode);
    if (!IsInteger(type)) return std::nullopt;
    return Decoded{find(type), SignatureOf(type, 1)};
  }
  if (const Find find = found(shifts)) {
    const Type type = opcode.TakeType();
    const char letter = LetterOf(type);
    return Decoded{find(type), {letter, '=', letter, '4'}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Decoded> DecodeInteger(Opcode& opcode) {
  if (opcode.Is("bfi") && opcode.Take("b32")) return Decoded{&InsertBits, "4=4444"};
  std::optional<Decoded> decoded = DecodeProduct(opcode);
  if (!decoded) decoded = DecodeCount(opcode);
  if (!decoded) decoded = DecodeOfOneType(opcode);
  if (decoded && decoded->execute == nullptr) return std::nullopt;
  return decoded;
}

}  // namespace fovea::ptx
