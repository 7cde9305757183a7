// Single instructions of the interpreter against what the PTX ISA manual says of them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/ptx/snippet.h"

namespace fovea::ptx {
namespace {

constexpr uint32_t kMinus1 = 0xFFFFFFFF;
constexpr uint32_t kLeast = 0x80000000;

struct Row {
  const char* instruction;
  std::vector<uint32_t> operands;
  uint32_t result;
};

void ExpectRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    EXPECT_EQ(Result(row.instruction, row.operands), row.result) << row.instruction;
  }
}

TEST(IntegerInstructions, WrapAround) {
  ExpectRows({{"add.s32 %r10, %r1, %r2;", {0x7FFFFFFF, 1}, kLeast},
              {"add.s32 %r10, %r1, -1;", {0}, kMinus1},
              {"sub.s32 %r10, %r1, %r2;", {0, 1}, kMinus1},
              {"mul.lo.s32 %r10, %r1, %r2;", {0x10001, 0x10001}, 0x20001},
              {"mul.hi.u32 %r10, %r1, %r2;", {kMinus1, kMinus1}, 0xFFFFFFFE},
              {"mul.hi.s32 %r10, %r1, %r2;", {kMinus1, kMinus1}, 0},
              {"mad.lo.s32 %r10, %r1, %r2, %r3;", {kMinus1, 5, 6}, 1},
              {"neg.s32 %r10, %r1;", {5}, static_cast<uint32_t>(-5)},
              {"abs.s32 %r10, %r1;", {static_cast<uint32_t>(-5)}, 5},
              {"not.b32 %r10, %r1;", {0xF0F0F0F0}, 0x0F0F0F0F}});
}

TEST(IntegerInstructions, HaveSignsOfTheirTypes) {
  ExpectRows(
      {{"div.s32 %r10, %r1, %r2;", {static_cast<uint32_t>(-7), 2}, static_cast<uint32_t>(-3)},
       {"rem.s32 %r10, %r1, %r2;", {static_cast<uint32_t>(-7), 2}, kMinus1},
       {"div.s32 %r10, %r1, %r2;", {kLeast, kMinus1}, kLeast},
       {"div.u32 %r10, %r1, %r2;", {kMinus1, 2}, 0x7FFFFFFF},
       {"rem.u32 %r10, %r1, %r2;", {kMinus1, 16}, 15},
       {"min.s32 %r10, %r1, %r2;", {kMinus1, 1}, kMinus1},
       {"min.u32 %r10, %r1, %r2;", {kMinus1, 1}, 1},
       {"max.s32 %r10, %r1, %r2;", {kMinus1, 1}, 1},
       {"max.u32 %r10, %r1, %r2;", {kMinus1, 1}, kMinus1},
       {"shr.s32 %r10, %r1, 4;", {kLeast}, 0xF8000000},
       {"shr.u32 %r10, %r1, 4;", {kLeast}, 0x08000000}});
}

TEST(IntegerInstructions, ShiftsBeyondARegisterLeaveItsSign) {
  ExpectRows({{"shl.b32 %r10, %r1, %r2;", {kMinus1, 32}, 0},
              {"shr.u32 %r10, %r1, %r2;", {kMinus1, 33}, 0},
              {"shr.s32 %r10, %r1, %r2;", {kLeast, 200}, kMinus1},
              {"shl.b32 %r10, %r1, %r2;", {1, 31}, kLeast}});
}

TEST(IntegerInstructions, CountAndInsertBits) {
  ExpectRows({{"popc.b32 %r10, %r1;", {0xF0F00001}, 9},
              {"clz.b32 %r10, %r1;", {0x00010000}, 15},
              {"clz.b32 %r10, %r1;", {0}, 32},
              {"bfi.b32 %r10, %r1, %r2, 8, 4;", {0xAB, 0xFFFFFFFF}, 0xFFFFFBFF},
              {"bfi.b32 %r10, %r1, %r2, 0, 32;", {0xAB, 0xFFFFFFFF}, 0xAB},
              {"bfi.b32 %r10, %r1, %r2, 32, 4;", {0xAB, 0x12345678}, 0x12345678}});
}

TEST(IntegerInstructions, WideProductsKeepAllBits) {
  ExpectRows({{"mul.wide.s32 %rd2, %r1, %r2; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r10, %rd2;",
               {kMinus1, 2},
               kMinus1},
              {"mul.wide.u32 %rd2, %r1, %r2; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r10, %rd2;",
               {kMinus1, 2},
               1},
              {"cvt.u16.u32 %h1, %r1; mul.wide.u16 %r10, %h1, 300;", {65535}, 65535u * 300},
              {"cvt.s64.s32 %rd2, %r1; mad.lo.s64 %rd2, %rd2, 3, 1; cvt.u32.u64 %r10, %rd2;",
               {kMinus1},
               static_cast<uint32_t>(-2)}});
}

TEST(IntegerInstructions, DivisionByZeroIsAFailure) {
  EXPECT_NE(MessageOf([] {
              Result("div.s32 %r10, %r1, %r2;", {1, 0});
            }).find("divides by zero"),
            std::string::npos);
}

TEST(FloatInstructions, RoundAsTheirModifierSays) {
  const uint32_t one = BitsOf(1.0f), tiny = BitsOf(0x1p-30f);
  const uint32_t above = BitsOf(1.0f + 0x1p-23f), below = BitsOf(1.0f - 0x1p-24f);
  ExpectRows({{"add.rn.f32 %r10, %r1, %r2;", {one, tiny}, one},
              {"add.rz.f32 %r10, %r1, %r2;", {one, tiny}, one},
              {"add.rp.f32 %r10, %r1, %r2;", {one, tiny}, above},
              {"add.rm.f32 %r10, %r1, %r2;", {one, tiny}, one},
              {"sub.rm.f32 %r10, %r1, %r2;", {one, tiny}, below},
              {"sub.rz.f32 %r10, %r1, %r2;", {one, tiny}, below},
              {"sub.rp.f32 %r10, %r1, %r2;", {one, tiny}, one},
              {"fma.rm.f32 %r10, %r1, %r1, %r2;", {one, BitsOf(-0x1p-30f)}, below},
              {"fma.rp.f32 %r10, %r1, %r1, %r2;", {one, tiny}, above},
              {"div.rn.f32 %r10, %r1, %r2;", {one, BitsOf(3.0f)}, BitsOf(1.0f / 3.0f)},
              {"div.rz.f32 %r10, %r1, %r2;", {one, BitsOf(3.0f)}, BitsOf(1.0f / 3.0f) - 1},
              {"sqrt.rn.f32 %r10, %r1;", {BitsOf(2.0f)}, BitsOf(std::sqrt(2.0f))},
              {"rcp.rn.f32 %r10, %r1;", {BitsOf(3.0f)}, BitsOf(1.0f / 3.0f)}});
}

TEST(FloatInstructions, FusedProductsAreRoundedOnce) {
  const float x = 1.0f + 0x1p-12f;
  ExpectRows({{"fma.rn.f32 %r10, %r1, %r1, %r2;",
               {BitsOf(x), BitsOf(-x * x)},
               BitsOf(std::fma(x, x, -(x * x)))},
              {"mul.f32 %r10, %r1, %r1; add.f32 %r10, %r10, %r2;",
               {BitsOf(x), BitsOf(-x * x)},
               BitsOf(0.0f)}});
  EXPECT_NE(std::fma(x, x, -(x * x)), 0.0f);
}

TEST(FloatInstructions, MinimumAndMaximumAvoidNaNAndOrderZeros) {
  const uint32_t nan = BitsOf(NAN), one = BitsOf(1.0f), zero = 0, minus_zero = kLeast;
  ExpectRows({{"min.f32 %r10, %r1, %r2;", {nan, one}, one},
              {"max.f32 %r10, %r1, %r2;", {one, nan}, one},
              {"min.f32 %r10, %r1, %r2;", {zero, minus_zero}, minus_zero},
              {"max.f32 %r10, %r1, %r2;", {minus_zero, zero}, zero},
              {"min.f32 %r10, %r1, %r2;", {BitsOf(-INFINITY), one}, BitsOf(-INFINITY)},
              {"neg.f32 %r10, %r1;", {zero}, minus_zero},
              {"abs.f32 %r10, %r1;", {BitsOf(-INFINITY)}, BitsOf(INFINITY)},
              {"copysign.f32 %r10, %r1, %r2;", {minus_zero, one}, BitsOf(-1.0f)}});
}

TEST(FloatInstructions, FlushAndSaturateWhereTheySay) {
  const uint32_t subnormal = BitsOf(0x1p-140f);
  ExpectRows({{"add.ftz.f32 %r10, %r1, %r1;", {subnormal}, 0},
              {"add.f32 %r10, %r1, %r1;", {subnormal}, BitsOf(0x1p-139f)},
              {"ex2.approx.ftz.f32 %r10, %r1;", {BitsOf(-140.0f)}, 0},
              {"ex2.approx.f32 %r10, %r1;", {BitsOf(-140.0f)}, subnormal},
              {"ex2.approx.f32 %r10, %r1;", {BitsOf(-INFINITY)}, 0},
              {"ex2.approx.f32 %r10, %r1;", {BitsOf(3.0f)}, BitsOf(8.0f)},
              {"lg2.approx.f32 %r10, %r1;", {BitsOf(8.0f)}, BitsOf(3.0f)},
              {"fma.rn.sat.f32 %r10, %r1, %r1, %r1;", {BitsOf(3.0f)}, BitsOf(1.0f)},
              {"add.sat.f32 %r10, %r1, %r1;", {BitsOf(NAN)}, 0}});
}

TEST(FloatInstructions, DoublesHaveTheirPrecision) {
  ExpectRows({{"cvt.f64.f32 %rd2, %r1; cvt.f64.f32 %rd3, %r2; add.rn.f64 %rd4, %rd2, %rd3;"
               "sub.rn.f64 %rd4, %rd4, %rd2; cvt.rn.f32.f64 %r10, %rd4;",
               {BitsOf(1.0f), BitsOf(0x1p-40f)},
               BitsOf(0x1p-40f)},
              {"cvt.f64.f32 %rd2, %r1; div.rn.f64 %rd2, %rd2, 0d4008000000000000;"
               "mul.rn.f64 %rd2, %rd2, 0d4008000000000000; cvt.rn.f32.f64 %r10, %rd2;",
               {BitsOf(6.0f)},
               BitsOf(6.0f)}});
}

TEST(ComparisonInstructions, TreatNaNAsTheirNamesSay) {
  const uint32_t nan = BitsOf(NAN), one = BitsOf(1.0f), two = BitsOf(2.0f);
  const auto compare = [](const std::string& how, uint32_t a, uint32_t b) {
    return Result("setp." + how + ".f32 %p1, %r1, %r2; selp.u32 %r10, 1, 0, %p1;", {a, b});
  };
  for (const char* ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"}) {
    EXPECT_EQ(compare(ordered, nan, one), 0u) << ordered;
  }
  for (const char* unordered : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"}) {
    EXPECT_EQ(compare(unordered, nan, one), 1u) << unordered;
  }
  for (const char* true_of_less : {"ne", "lt", "le", "neu", "ltu", "leu", "num"}) {
    EXPECT_EQ(compare(true_of_less, one, two), 1u) << true_of_less;
    EXPECT_EQ(compare(true_of_less, two, one), std::string(true_of_less).find('l') != 0)
        << true_of_less;
  }
}

TEST(ComparisonInstructions, HaveSignsOfTheirTypes) {
  const auto compare = [](const std::string& how) {
    return Result("setp." + how + " %p1, %r1, %r2; selp.u32 %r10, 1, 0, %p1;", {kMinus1, 1});
  };
  EXPECT_EQ(compare("lt.s32"), 1u);
  EXPECT_EQ(compare("lt.u32"), 0u);
  EXPECT_EQ(compare("gt.u32"), 1u);
  EXPECT_EQ(compare("ge.s32"), 0u);
  EXPECT_EQ(compare("ne.s32"), 1u);
}

TEST(PredicateInstructions, CombineAndNegate) {
  const std::string begin = "setp.eq.s32 %p1, %r1, 1; setp.eq.s32 %p2, %r2, 1;";
  const auto combine = [&](const std::string& how, uint32_t a, uint32_t b) {
    return Result(begin + how + "selp.u32 %r10, 1, 0, %p3;", {a, b});
  };
  for (const uint32_t a : {0u, 1u}) {
    for (const uint32_t b : {0u, 1u}) {
      EXPECT_EQ(combine("and.pred %p3, %p1, %p2;", a, b), a & b);
      EXPECT_EQ(combine("or.pred %p3, %p1, %p2;", a, b), a | b);
      EXPECT_EQ(combine("xor.pred %p3, %p1, %p2;", a, b), a ^ b);
      EXPECT_EQ(combine("not.pred %p3, %p1;", a, b), a ^ 1);
      EXPECT_EQ(combine("mov.pred %p3, %p1;", a, b), a);
      EXPECT_EQ(combine("and.pred %p3, %p1, !%p2;", a, b), a & (b ^ 1));
    }
  }
}

}  // namespace
}  // namespace fovea::ptx
