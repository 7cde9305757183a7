// Applies a function of single values to the lanes of a warp's registers.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>

#include "tests/kernels/ptx/program.h"
#include "tests/kernels/ptx/warp.h"

namespace fovea::ptx {

// kOp: a lambda without captures, from values of types From to one of type To. Each is as wide as
// its register.
template <auto kOp, class To, class From>
void Unary(Warp& warp, const Instruction& in, LaneMask lanes) {
  To* const to = warp.Lanes<To>(in.to[0]);
  const From* const a = warp.Lanes<From>(in.from[0]);
  ForLanes(lanes, [=](unsigned i) { to[i] = kOp(a[i]); });
}

template <auto kOp, class To, class A, class B = A>
void Binary(Warp& warp, const Instruction& in, LaneMask lanes) {
  To* const to = warp.Lanes<To>(in.to[0]);
  const A* const a = warp.Lanes<A>(in.from[0]);
  const B* const b = warp.Lanes<B>(in.from[1]);
  ForLanes(lanes, [=](unsigned i) { to[i] = kOp(a[i], b[i]); });
}

template <auto kOp, class To, class A, class C = A>
void Ternary(Warp& warp, const Instruction& in, LaneMask lanes) {
  To* const to = warp.Lanes<To>(in.to[0]);
  const A* const a = warp.Lanes<A>(in.from[0]);
  const A* const b = warp.Lanes<A>(in.from[1]);
  const C* const c = warp.Lanes<C>(in.from[2]);
  ForLanes(lanes, [=](unsigned i) { to[i] = kOp(a[i], b[i], c[i]); });
}

// Of predicates: kOp works on whole masks.
template <auto kOp>
void BinaryOfMasks(Warp& warp, const Instruction& in, LaneMask lanes) {
  warp.SetPredicate(in.to[0], lanes,
                    kOp(warp.PredicateOf(in.from[0]), warp.PredicateOf(in.from[1])));
}

// kOp: from two values to whether the predicate is true.
template <auto kOp, class T>
void Compare(Warp& warp, const Instruction& in, LaneMask lanes) {
  const T* const a = warp.Lanes<T>(in.from[0]);
  const T* const b = warp.Lanes<T>(in.from[1]);
  LaneMask values = 0;
  ForLanes(lanes, [&](unsigned i) { values |= LaneMask{kOp(a[i], b[i])} << i; });
  warp.SetPredicate(in.to[0], lanes, values);
}

// Calls make(T{}) with the C++ type of an integer type, of untyped bits an unsigned one; null for
// other types.
template <class Make>
Execute ForInteger(Type type, const Make& make) {
  switch (type) {
    case Type::kS16:
      return make(int16_t{});
    case Type::kU16:
    case Type::kB16:
      return make(uint16_t{});
    case Type::kS32:
      return make(int32_t{});
    case Type::kU32:
    case Type::kB32:
      return make(uint32_t{});
    case Type::kS64:
      return make(int64_t{});
    case Type::kU64:
    case Type::kB64:
      return make(uint64_t{});
    default:
      return nullptr;
  }
}

// Likewise with float or double.
template <class Make>
Execute ForFloat(Type type, const Make& make) {
  if (type == Type::kF32) return make(float{});
  if (type == Type::kF64) return make(double{});
  return nullptr;
}

}  // namespace fovea::ptx
