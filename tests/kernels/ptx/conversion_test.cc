// Conversions, packing and memory instructions of the interpreter.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/ptx/number_formats.h"
#include "tests/kernels/ptx/snippet.h"

namespace fovea::ptx {
namespace {

uint32_t Convert(const std::string& instruction, float x) {
  return Result(instruction, {BitsOf(x)});
}

TEST(Conversions, RoundFloatsToWholeNumbers) {
  struct Row {
    float x;
    float nearest, zero, down, up;
  };
  for (const Row& row : {Row{2.5f, 2, 2, 2, 3}, Row{3.5f, 4, 3, 3, 4}, Row{-2.5f, -2, -2, -3, -2},
                         Row{-0.25f, -0.0f, -0.0f, -1, -0.0f}}) {
    EXPECT_EQ(Convert("cvt.rni.f32.f32 %r10, %r1;", row.x), BitsOf(row.nearest));
    EXPECT_EQ(Convert("cvt.rzi.f32.f32 %r10, %r1;", row.x), BitsOf(row.zero));
    EXPECT_EQ(Convert("cvt.rmi.f32.f32 %r10, %r1;", row.x), BitsOf(row.down));
    EXPECT_EQ(Convert("cvt.rpi.f32.f32 %r10, %r1;", row.x), BitsOf(row.up));
    EXPECT_EQ(Convert("cvt.rni.s32.f32 %r10, %r1;", row.x),
              static_cast<uint32_t>(static_cast<int32_t>(row.nearest)));
    EXPECT_EQ(Convert("cvt.rmi.s32.f32 %r10, %r1;", row.x),
              static_cast<uint32_t>(static_cast<int32_t>(row.down)));
  }
}

TEST(Conversions, ClampToTheIntegersRange) {
  EXPECT_EQ(Convert("cvt.rzi.s32.f32 %r10, %r1;", 3e9f), 0x7FFFFFFFu);
  EXPECT_EQ(Convert("cvt.rzi.s32.f32 %r10, %r1;", -INFINITY), 0x80000000u);
  EXPECT_EQ(Convert("cvt.rzi.u32.f32 %r10, %r1;", -1.0f), 0u);
  EXPECT_EQ(Convert("cvt.rzi.s32.f32 %r10, %r1;", NAN), 0u);
  EXPECT_EQ(
      Convert("cvt.rzi.s64.f32 %rd2, %r1; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r10, %rd2;", NAN),
      0x80000000u);
}

TEST(Conversions, FromIntegersRound) {
  const uint32_t odd = (1u << 25) + 1;
  EXPECT_EQ(FloatOf(Result("cvt.rn.f32.s32 %r10, %r1;", {odd})), 0x1p25f);
  EXPECT_EQ(FloatOf(Result("cvt.rp.f32.s32 %r10, %r1;", {odd})), 0x1p25f + 4);
  EXPECT_EQ(FloatOf(Result("cvt.rn.f32.u32 %r10, %r1;", {0xFFFFFFFF})), 0x1p32f);
  EXPECT_EQ(FloatOf(Result("cvt.rn.f32.s32 %r10, %r1;", {0xFFFFFFFF})), -1.0f);
  EXPECT_EQ(FloatOf(Result("cvt.s64.s32 %rd2, %r1; cvt.rn.f32.s64 %r10, %rd2;", {0xFFFFFFFE})),
            -2.0f);
}

TEST(Conversions, ExtendIntegersByTheSourcesSign) {
  EXPECT_EQ(Result("cvt.u16.u32 %h1, %r1; cvt.s32.s16 %r10, %h1;", {0x12348000}), 0xFFFF8000u);
  EXPECT_EQ(Result("cvt.u16.u32 %h1, %r1; cvt.u32.u16 %r10, %h1;", {0x12348000}), 0x8000u);
  EXPECT_EQ(Result("cvt.u16.u32 %h1, %r1; cvt.s32.s8 %r10, %h1;", {0x80}), 0xFFFFFF80u);
  EXPECT_EQ(Result("cvt.u64.u32 %rd2, %r1; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r10, %rd2;",
                   {0xFFFFFFFF}),
            0u);
  EXPECT_EQ(Result("cvt.s64.s32 %rd2, %r1; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r10, %rd2;",
                   {0xFFFFFFFF}),
            0xFFFFFFFFu);
}

TEST(Conversions, SaturateToTheUnitInterval) {
  EXPECT_EQ(Convert("cvt.sat.f32.f32 %r10, %r1;", 2.0f), BitsOf(1.0f));
  EXPECT_EQ(Convert("cvt.sat.f32.f32 %r10, %r1;", -2.0f), 0u);
  EXPECT_EQ(Convert("cvt.sat.f32.f32 %r10, %r1;", NAN), 0u);
  EXPECT_EQ(Convert("cvt.sat.f32.f32 %r10, %r1;", 0.25f), BitsOf(0.25f));
}

// LibTorch's types round as the hardware does.
TEST(Conversions, SixteenBitFormatsRoundToTheNearest) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 65521) {  // a prime number
    const float x = FloatOf(static_cast<uint32_t>(bits));
    if (std::isnan(x)) continue;
    ASSERT_EQ(Bf16Of(x), c10::BFloat16(x).x) << x;
    ASSERT_EQ(F16Of(x), c10::Half(x).x) << x;
  }
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float x = c10::Half(half, c10::Half::from_bits());
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(FloatOfF16(half)));
    } else {
      ASSERT_EQ(BitsOf(FloatOfF16(half)), BitsOf(x));
      ASSERT_EQ(F16Of(x), half);
    }
  }
  EXPECT_EQ(Bf16Of(NAN), 0x7FFF);
  EXPECT_EQ(F16Of(NAN), 0x7FFF);
}

TEST(Conversions, PairsHaveTheFirstOperandAbove) {
  const std::vector<uint32_t> pair = {BitsOf(1.0f), BitsOf(-2.0f)};
  EXPECT_EQ(Result("cvt.rn.bf16x2.f32 %r10, %r1, %r2;", pair), 0x3F80C000u);
  EXPECT_EQ(Result("cvt.rn.f16x2.f32 %r10, %r1, %r2;", pair), 0x3C00C000u);
  EXPECT_EQ(Result("{ cvt.rn.bf16.f32 %h1, %r1;} cvt.f32.bf16 %r10, %h1;", pair), BitsOf(1.0f));
  EXPECT_EQ(Result("cvt.rn.f16.f32 %h1, %r2; cvt.f32.f16 %r10, %h1;", pair), BitsOf(-2.0f));
}

TEST(Moves, PackAndUnpackFromTheLowestPart) {
  EXPECT_EQ(Result("mov.b32 {%h1, %h2}, %r1; mov.b32 %r10, {%h2, %h1};", {0x12345678}),
            0x56781234u);
  EXPECT_EQ(Result("mov.b32 {%h1, %h2}, %r1; mov.b32 %r10, {0, %h1};", {0x12345678}), 0x56780000u);
  EXPECT_EQ(Result("mov.b64 %rd2, {%r1, %r2}; shr.u64 %rd2, %rd2, 16; cvt.u32.u64 %r10, %rd2;",
                   {0x12345678, 0x9ABCDEF0}),
            0xDEF01234u);
  EXPECT_EQ(Result("mov.b64 %rd2, {%r1, %r2}; mov.b64 {%r3, %r10}, %rd2;", {1, 2}), 2u);
}

TEST(MemoryInstructions, ExtendNarrowLoads) {
  const std::vector<uint32_t> in = {0x8180};
  EXPECT_EQ(RunSnippet("ld.global.u8 %r1, [%rd0]; st.global.u32 [%rd1], %r1;", in, 1, 1)[0], 0x80u);
  EXPECT_EQ(RunSnippet("ld.global.s8 %r1, [%rd0]; st.global.u32 [%rd1], %r1;", in, 1, 1)[0],
            0xFFFFFF80u);
  EXPECT_EQ(RunSnippet("ld.global.s16 %r1, [%rd0]; st.global.u32 [%rd1], %r1;", in, 1, 1)[0],
            0xFFFF8180u);
  EXPECT_EQ(RunSnippet("ld.global.u16 %h1, [%rd0]; mov.b32 %r1, {%h1, %h1};"
                       "st.global.u16 [%rd1+2], %h1; st.global.u8 [%rd1+1], %h1;",
                       in, 1, 1)[0],
            0x81808000u);
}

TEST(MemoryInstructions, MoveVectorsThroughEveryMemory) {
  const std::vector<uint32_t> in = {1, 2, 3, 4};
  for (const char* through :
       {"st.shared.v4.u32 [shared+16], {%r1, %r2, %r3, %r4};"
        "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [shared+16];",
        "st.local.v4.u32 [local+16], {%r1, %r2, %r3, %r4};"
        "ld.local.v2.u32 {%r5, %r6}, [local+16]; ld.local.v2.u32 {%r7, %r8}, [local+24];",
        "mov.u64 %rd2, shared; cvta.shared.u64 %rd3, %rd2; st.v4.u32 [%rd3], {%r1, %r2, %r3, %r4};"
        "ld.v4.u32 {%r5, %r6, %r7, %r8}, [%rd3];",
        "mov.u64 %rd2, local; cvta.local.u64 %rd3, %rd2; st.v4.u32 [%rd3], {%r1, %r2, %r3, %r4};"
        "cvta.to.local.u64 %rd4, %rd3; ld.local.v4.u32 {%r5, %r6, %r7, %r8}, [%rd4];",
        "cvta.to.global.u64 %rd2, %rd1; st.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};"
        "ld.global.nc.v4.u32 {%r5, %r6, %r7, %r8}, [%rd1];"}) {
    EXPECT_EQ(RunSnippet(std::string("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0];") + through +
                             "st.global.v4.u32 [%rd1], {%r5, %r6, %r7, %r8};",
                         in, 4, 1),
              in)
        << through;
  }
}

TEST(MemoryInstructions, TakeConstantsAndParameters) {
  EXPECT_EQ(RunSnippet("mov.b64 %rd2, out; ld.param.u64 %rd3, [%rd2]; add.s64 %rd4, %rd2, -4;"
                       "ld.param.u64 %rd5, [%rd4+4]; st.global.u32 [%rd5], -1;"
                       "st.global.f32 [%rd3+4], 0f3F800000;",
                       {0}, 2, 1),
            (std::vector<uint32_t>{0xFFFFFFFF, 0x3F800000}));
}

}  // namespace
}  // namespace fovea::ptx
