// Floating-point arithmetic (PTX ISA 9.7.3). Approximations (".approx", ".full") give the rounded
// exact result: a GPU's may differ in the last bits, and its NaNs have other payloads.
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "tests/kernels/ptx/apply.h"
#include "tests/kernels/ptx/opcode.h"
#include "tests/kernels/ptx/rounding.h"

namespace fovea::ptx {
namespace {

// .ftz: subnormal operands and results are zeros of their sign.
template <bool kFlush, class T>
T Flushed(T x) {
  if constexpr (kFlush) {
    if (std::abs(x) < std::numeric_limits<T>::min()) return std::copysign(T{0}, x);
  }
  return x;
}

// .sat: into [0, 1], NaN to 0.
template <bool kSaturate, class T>
T Saturated(T x) {
  if constexpr (kSaturate) {
    if (!(x > T{0})) return T{0};
    return x < T{1} ? x : T{1};
  }
  return x;
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
// The other operand of a NaN; -0 is below 0.
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a < b ? b : a;
  }
};
struct Fma {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return -a;
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    return std::abs(a);
  }
};
struct SquareRoot {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T{1} / a;
  }
};
struct ReciprocalRoot {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a)));
  }
};
struct Exponential {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(std::exp2(static_cast<double>(a)));
  }
};
struct Logarithm {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(std::log2(static_cast<double>(a)));
  }
};
struct CopySign {  // of a, to b
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};

template <class Op, class T, bool kFlush, bool kSaturate, class... Rest>
constexpr auto kWithModes = [](T a, Rest... rest) {
  return Saturated<kSaturate>(Flushed<kFlush>(Op()(Flushed<kFlush>(a), Flushed<kFlush>(rest)...)));
};

template <class Op, int kOperands, class T, bool kFlush, bool kSaturate>
Execute InMode(int rounding) {
  if constexpr (kOperands == 1) {
    return WithRounding<&Unary<kWithModes<Op, T, kFlush, kSaturate>, T, T>>(rounding);
  } else if constexpr (kOperands == 2) {
    return WithRounding<&Binary<kWithModes<Op, T, kFlush, kSaturate, T>, T, T>>(rounding);
  } else {
    return WithRounding<&Ternary<kWithModes<Op, T, kFlush, kSaturate, T, T>, T, T>>(rounding);
  }
}

struct Modes {
  int rounding = 0;
  bool flush = false, saturate = false;
};

template <class Op, int kOperands>
Decoded Make(Type type, const Modes& modes) {
  const Execute execute = ForFloat(type, [&](auto t) -> Execute {
    using T = decltype(t);
    if (modes.flush && modes.saturate) return InMode<Op, kOperands, T, true, true>(modes.rounding);
    if (modes.flush) return InMode<Op, kOperands, T, true, false>(modes.rounding);
    if (modes.saturate) return InMode<Op, kOperands, T, false, true>(modes.rounding);
    return InMode<Op, kOperands, T, false, false>(modes.rounding);
  });
  const char letter = LetterOf(type);
  return {execute, std::string{letter, '='} + std::string(kOperands, letter)};
}

using MakeDecoded = Decoded (*)(Type, const Modes&);

}  // namespace

std::optional<Decoded> DecodeFloat(Opcode& opcode) {
  static const std::map<std::string, MakeDecoded> table = {
      {"add", &Make<Add, 2>},          {"sub", &Make<Sub, 2>},
      {"mul", &Make<Mul, 2>},          {"div", &Make<Div, 2>},
      {"fma", &Make<Fma, 3>},          {"min", &Make<Min, 2>},
      {"max", &Make<Max, 2>},          {"neg", &Make<Negate, 1>},
      {"abs", &Make<Absolute, 1>},     {"sqrt", &Make<SquareRoot, 1>},
      {"rcp", &Make<Reciprocal, 1>},   {"rsqrt", &Make<ReciprocalRoot, 1>},
      {"ex2", &Make<Exponential, 1>},  {"lg2", &Make<Logarithm, 1>},
      {"copysign", &Make<CopySign, 2>}};
  const auto row = table.find(opcode.name());
  if (row == table.end()) return std::nullopt;
  const Type type = opcode.TakeType();
  if (type != Type::kF32 && type != Type::kF64) return std::nullopt;
  Modes modes;
  modes.rounding = opcode.TakeOneOf(kRoundings).value_or(0);
  modes.flush = opcode.Take("ftz");
  modes.saturate = opcode.Take("sat");
  opcode.TakeOneOf({"approx", "full"});
  return row->second(type, modes);
}

}  // namespace fovea::ptx
