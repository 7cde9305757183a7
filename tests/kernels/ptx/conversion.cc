// Conversions (PTX ISA 9.7.9, cvt): cvt{.rounding}{.sat}.to.from.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "tests/kernels/ptx/apply.h"
#include "tests/kernels/ptx/number_formats.h"
#include "tests/kernels/ptx/opcode.h"
#include "tests/kernels/ptx/rounding.h"

namespace fovea::ptx {
namespace {

template <class T>
T RoundedToInteger(T x, Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero:
      return std::trunc(x);
    case Rounding::kDown:
      return std::floor(x);
    case Rounding::kUp:
      return std::ceil(x);
    case Rounding::kNearest:
      break;
  }
  return std::nearbyint(x);
}

// Numbers beyond the integer's range become its ends. NaN becomes 0, or where 64 bits are involved
// the integer whose highest bit alone is set.
template <class To, class From, Rounding kRounding>
void ToInteger(Warp& warp, const Instruction& in, LaneMask lanes) {
  const From* const from = warp.Lanes<From>(in.from[0]);
  ForLanes(lanes, [&](unsigned i) {
    const From x = RoundedToInteger(from[i], kRounding);
    To result;
    if (std::isnan(x)) {
      const bool wide = sizeof(To) == 8 || sizeof(From) == 8;
      result = wide ? static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1)) : To{0};
    } else if (x >= std::ldexp(From{1}, std::numeric_limits<To>::digits)) {
      result = std::numeric_limits<To>::max();
    } else if (x < static_cast<From>(std::numeric_limits<To>::min())) {
      result = std::numeric_limits<To>::min();
    } else {
      result = static_cast<To>(x);
    }
    warp.SetBits(in.to[0], i, static_cast<uint64_t>(result));
  });
}

template <class To, class From>
Execute ToIntegerIn(int rounding) {
  switch (static_cast<Rounding>(rounding)) {
    case Rounding::kZero:
      return &ToInteger<To, From, Rounding::kZero>;
    case Rounding::kDown:
      return &ToInteger<To, From, Rounding::kDown>;
    case Rounding::kUp:
      return &ToInteger<To, From, Rounding::kUp>;
    case Rounding::kNearest:
      break;
  }
  return &ToInteger<To, From, Rounding::kNearest>;
}

// Registers may be wider than the types: a narrow source is their lower part, a narrow result is
// extended by its sign or zeros.
template <class To, class From>
void BetweenIntegers(Warp& warp, const Instruction& in, LaneMask lanes) {
  using Extended = std::conditional_t<std::is_signed_v<To>, int64_t, uint64_t>;
  ForLanes(lanes, [&](unsigned i) {
    const From x = static_cast<From>(warp.Bits(in.from[0], i));
    warp.SetBits(in.to[0], i, static_cast<uint64_t>(static_cast<Extended>(static_cast<To>(x))));
  });
}

template <class To, class From>
void FromInteger(Warp& warp, const Instruction& in, LaneMask lanes) {
  To* const to = warp.Lanes<To>(in.to[0]);
  ForLanes(lanes, [&](unsigned i) {
    to[i] = static_cast<To>(static_cast<From>(warp.Bits(in.from[0], i)));
  });
}

// With 8-bit types, which ForInteger has no registers for.
template <class Make>
Execute ForAnyInteger(Type type, const Make& make) {
  if (type == Type::kS8) return make(int8_t{});
  if (type == Type::kU8 || type == Type::kB8) return make(uint8_t{});
  return ForInteger(type, make);
}

constexpr auto kSame = []<class T>(T x) { return x; };
constexpr auto kTrunc = [](float x) { return std::trunc(x); };
constexpr auto kFloor = [](float x) { return std::floor(x); };
constexpr auto kCeil = [](float x) { return std::ceil(x); };
constexpr auto kNearby = [](float x) { return std::nearbyint(x); };
constexpr auto kUnit = [](float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; };
constexpr auto kWiden = [](float x) { return static_cast<double>(x); };
constexpr auto kNarrow = [](double x) { return static_cast<float>(x); };
constexpr auto kToBf16 = [](float x) { return Bf16Of(x); };
constexpr auto kToF16 = [](float x) { return F16Of(x); };
constexpr auto kFromBf16 = [](uint16_t x) { return FloatOfBf16(x); };
constexpr auto kFromF16 = [](uint16_t x) { return FloatOfF16(x); };
// The first operand goes to the upper half.
constexpr auto kToBf16x2 = [](float high, float low) {
  return static_cast<uint32_t>(Bf16Of(high)) << 16 | Bf16Of(low);
};
constexpr auto kToF16x2 = [](float high, float low) {
  return static_cast<uint32_t>(F16Of(high)) << 16 | F16Of(low);
};

std::optional<Decoded> DecodeFloatToInteger(Opcode& opcode, Type to, Type from) {
  const std::optional<int> rounding = opcode.TakeOneOf(kIntegerRoundings);
  if (!rounding) return std::nullopt;
  const Execute execute = ForFloat(from, [&](auto f) {
    return ForInteger(to, [&](auto t) { return ToIntegerIn<decltype(t), decltype(f)>(*rounding); });
  });
  return Decoded{execute, {'w', '=', LetterOf(from)}};
}

std::optional<Decoded> DecodeFromInteger(Opcode& opcode, Type to, Type from) {
  if (IsInteger(to)) {
    const Execute execute = ForAnyInteger(from, [&](auto f) {
      return ForAnyInteger(
          to, [&](auto t) -> Execute { return &BetweenIntegers<decltype(t), decltype(f)>; });
    });
    return Decoded{execute, "w=w"};
  }
  const std::optional<int> rounding = opcode.TakeOneOf(kRoundings);
  if (!rounding) return std::nullopt;
  const Execute execute = ForFloat(to, [&](auto t) {
    return ForAnyInteger(from, [&](auto f) -> Execute {
      return WithRounding<&FromInteger<decltype(t), decltype(f)>>(*rounding);
    });
  });
  return Decoded{execute, {LetterOf(to), '=', 'w'}};
}

std::optional<Decoded> DecodeFloatToFloat(Opcode& opcode) {
  if (opcode.Take("sat")) return Decoded{&Unary<kUnit, float, float>, "4=4"};
  switch (opcode.TakeOneOf(kIntegerRoundings).value_or(-1)) {
    case 0:
      return Decoded{&Unary<kNearby, float, float>, "4=4"};
    case 1:
      return Decoded{&Unary<kTrunc, float, float>, "4=4"};
    case 2:
      return Decoded{&Unary<kFloor, float, float>, "4=4"};
    case 3:
      return Decoded{&Unary<kCeil, float, float>, "4=4"};
    default:
      return Decoded{&Unary<kSame, float, float>, "4=4"};
  }
}

std::optional<Decoded> DecodeBetweenFormats(Opcode& opcode, Type to, Type from) {
  if (to == Type::kF32 && from == Type::kF32) return DecodeFloatToFloat(opcode);
  if (to == Type::kF64 && from == Type::kF32) return Decoded{&Unary<kWiden, double, float>, "8=4"};
  if (to == Type::kF32 && from == Type::kF64) {
    const int rounding = opcode.TakeOneOf(kRoundings).value_or(0);
    return Decoded{WithRounding<&Unary<kNarrow, float, double>>(rounding), "4=8"};
  }
  if (to == Type::kF32 && from == Type::kBf16) {
    return Decoded{&Unary<kFromBf16, float, uint16_t>, "4=2"};
  }
  if (to == Type::kF32 && from == Type::kF16) {
    return Decoded{&Unary<kFromF16, float, uint16_t>, "4=2"};
  }
  if (from != Type::kF32 || !opcode.Take("rn")) return std::nullopt;
  switch (to) {
    case Type::kBf16:
      return Decoded{&Unary<kToBf16, uint16_t, float>, "2=4"};
    case Type::kF16:
      return Decoded{&Unary<kToF16, uint16_t, float>, "2=4"};
    case Type::kBf16x2:
      return Decoded{&Binary<kToBf16x2, uint32_t, float>, "4=44"};
    case Type::kF16x2:
      return Decoded{&Binary<kToF16x2, uint32_t, float>, "4=44"};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Decoded> DecodeConversion(Opcode& opcode) {
  if (!opcode.Is("cvt")) return std::nullopt;
  const Type to = opcode.TakeType();
  const Type from = opcode.TakeType();
  std::optional<Decoded> decoded;
  if (IsInteger(from)) {
    decoded = DecodeFromInteger(opcode, to, from);
  } else if (IsInteger(to)) {
    decoded = DecodeFloatToInteger(opcode, to, from);
  } else {
    decoded = DecodeBetweenFormats(opcode, to, from);
  }
  if (decoded && decoded->execute == nullptr) return std::nullopt;
  return decoded;
}

}  // namespace fovea::ptx
