// Instructions of whole warps, and how lanes diverge and meet again.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/ptx/number_formats.h"
#include "tests/kernels/ptx/snippet.h"

namespace fovea::ptx {
namespace {

// What each of 32 lanes has in %r10 after the body.
std::vector<uint32_t> OfLanes(const std::string& body) {
  return RunSnippet(body +
                        "mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd1, %rd10;"
                        "st.global.u32 [%rd11], %r10;",
                    {0}, 32);
}

TEST(Shuffles, ReadTheLaneThatTheyName) {
  const auto butterfly = OfLanes("shfl.sync.bfly.b32 %r10, %r0, 3, 31, -1;");
  const auto down = OfLanes(
      "shfl.sync.down.b32 %r10|%p1, %r0, 30, 31, -1;"
      "@!%p1 add.s32 %r10, %r10, 100;");
  const auto up = OfLanes(
      "shfl.sync.up.b32 %r10|%p1, %r0, 1, 0, -1;"
      "@!%p1 add.s32 %r10, %r10, 100;");
  const auto index = OfLanes("shfl.sync.idx.b32 %r10, %r0, 5, 31, -1;");
  const auto of_eight = OfLanes("shfl.sync.idx.b32 %r10, %r0, 5, 0x181F, -1;");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(butterfly[lane], lane ^ 3);
    EXPECT_EQ(down[lane], lane < 2 ? lane + 30 : lane + 100);
    EXPECT_EQ(up[lane], lane > 0 ? lane - 1 : 100);
    EXPECT_EQ(index[lane], 5u);
    EXPECT_EQ(of_eight[lane], lane / 8 * 8 + 5);
  }
}

TEST(Votes, CountTheLanesOfTheirMask) {
  const std::string is_odd = "and.b32 %r1, %r0, 1; setp.eq.s32 %p1, %r1, 1;";
  EXPECT_EQ(OfLanes(is_odd + "vote.sync.ballot.b32 %r10, %p1, -1;")[0], 0xAAAAAAAAu);
  EXPECT_EQ(OfLanes(is_odd + "vote.sync.ballot.b32 %r10, !%p1, -1;")[0], 0x55555555u);
  const auto vote = [&](const std::string& how) {
    return OfLanes(is_odd + "vote.sync." + how + " %p2, %p1, -1; selp.u32 %r10, 1, 0, %p2;")[7];
  };
  EXPECT_EQ(vote("any.pred"), 1u);
  EXPECT_EQ(vote("all.pred"), 0u);
  EXPECT_EQ(vote("uni.pred"), 0u);
  // Half of the warp votes for itself.
  const auto halves = OfLanes(is_odd + R"(
    setp.lt.u32 %p3, %r0, 16;
    selp.b32 %r2, 0xFFFF, 0xFFFF0000, %p3;
    vote.sync.ballot.b32 %r10, %p1, %r2;
  )");
  EXPECT_EQ(halves[3], 0x0000AAAAu);
  EXPECT_EQ(halves[20], 0xAAAA0000u);
}

TEST(Divergence, LanesMeetWhereTheirPathsJoin) {
  const auto lanes = OfLanes(R"(
    setp.lt.u32 %p1, %r0, 10;
    @%p1 bra $FIRST;
    mov.u32 %r10, 200;
    bra.uni $JOINED;
$FIRST:
    mov.u32 %r10, 100;
$JOINED:
    shfl.sync.bfly.b32 %r10, %r10, 31, 31, -1;
  )");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(lanes[lane], lane < 22 ? 200u : 100u);
}

TEST(Divergence, LoopsEndForEachLaneByItself) {
  const auto lanes = OfLanes(R"(
    mov.u32 %r10, 0;
    mov.u32 %r1, 0;
$LOOP:
    add.s32 %r10, %r10, 2;
    add.s32 %r1, %r1, 1;
    setp.le.u32 %p1, %r1, %r0;
    @%p1 bra $LOOP;
    vote.sync.ballot.b32 %r2, %p1, -1;
    add.s32 %r10, %r10, %r2;
  )");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(lanes[lane], 2 * lane + 2);
}

// A path that the compiler has placed behind the end of the others.
TEST(Divergence, LanesWaitAtACollectiveForThoseThatComeLater) {
  const auto lanes = OfLanes(R"(
    mov.u32 %r10, 1;
    setp.eq.s32 %p1, %r0, 5;
    @%p1 bra $COLD;
$MEET:
    vote.sync.ballot.b32 %r10, %p1, -1;
    bra.uni $END;
$COLD:
    mov.u32 %r10, 2;
    bra.uni $MEET;
$END:
  )");
  EXPECT_EQ(lanes, std::vector<uint32_t>(32, 1u << 5));
}

TEST(Divergence, GuardsApplyToLanesByThemselves) {
  const auto lanes = OfLanes(R"(
    setp.lt.u32 %p1, %r0, 4;
    mov.u32 %r10, 7;
    @!%p1 mov.u32 %r10, 8;
    @%p1 add.s32 %r10, %r10, %r0;
  )");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(lanes[lane], lane < 4 ? 7 + lane : 8);
}

TEST(Barriers, OrderAllWarps) {
  const auto out = RunSnippet(R"(
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, shared;
    add.s32 %r3, %r2, %r1;
    st.shared.u32 [%r3], %r0;
    bar.sync 0;
    xor.b32 %r4, %r1, 508;
    add.s32 %r5, %r2, %r4;
    ld.shared.u32 %r10, [%r5];
    mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd1, %rd10;
    st.global.u32 [%rd11], %r10;
  )",
                              {0}, 128, 128);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], 127 - i);
}

TEST(Barriers, ReduceOverTheBlock) {
  for (const char* one : {"77", "500"}) {
    const auto out = RunSnippet(std::string("setp.eq.s32 %p1, %r0, ") + one + R"(;
      bar.red.or.pred %p2, 0, %p1;
      selp.u32 %r10, 1, 0, %p2;
      mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd1, %rd10;
      st.global.u32 [%rd11], %r10;
    )",
                                {0}, 128, 128);
    EXPECT_EQ(out, std::vector<uint32_t>(128, std::string(one) == "77")) << one;
  }
}

// Element (row, column) of matrix m is 256 m + 16 row + column.
std::vector<uint32_t> LoadedMatrices(const std::string& transposed) {
  const std::string store_row = R"(
    and.b32 %r1, %r0, 7;
    shr.u32 %r2, %r0, 3;
    shl.b32 %r3, %r2, 8;
    shl.b32 %r4, %r1, 4;
    add.s32 %r5, %r3, %r4;
    mad.lo.s32 %r6, %r5, 65537, 65536;
    shl.b32 %r7, %r0, 4;
    mov.u32 %r8, shared;
    add.s32 %r9, %r8, %r7;
    add.s32 %r11, %r6, 131074;
    add.s32 %r12, %r11, 131074;
    add.s32 %r13, %r12, 131074;
    st.shared.v4.u32 [%r9], {%r6, %r11, %r12, %r13};
    bar.warp.sync -1;
  )";
  return RunSnippet(store_row + "ldmatrix.sync.aligned.m8n8.x4" + transposed +
                        R"(.shared.b16 {%r20, %r21, %r22, %r23}, [%r9];
    shl.b32 %r24, %r0, 4; cvt.u64.u32 %rd2, %r24; add.s64 %rd3, %rd1, %rd2;
    st.global.v4.u32 [%rd3], {%r20, %r21, %r22, %r23};
  )",
                    {0}, 128);
}

TEST(Matrices, AreLoadedAsTheManualDrawsThem) {
  const auto plain = LoadedMatrices(""), transposed = LoadedMatrices(".trans");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t row = lane / 4, column = lane % 4 * 2;
    for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t first = 256 * m + 16 * row + column;
      EXPECT_EQ(plain[4 * lane + m], first | (first + 1) << 16);
      const uint32_t turned = 256 * m + 16 * column + row;
      EXPECT_EQ(transposed[4 * lane + m], turned | (turned + 16) << 16);
    }
  }
}

// Products of matrices whose element of row i and column j is small and exact in both formats; the
// layouts are those of "Matrix fragments for mma.m16n8k16" in the manual.
void ExpectProducts(const std::string& type, uint16_t (*format)(float)) {
  const auto left = [](int i, int k) { return static_cast<float>((3 * i + 5 * k) % 7 - 3); };
  const auto right = [](int k, int j) { return static_cast<float>((2 * k + j) % 5 - 2); };
  const auto pair = [&](float low, float high) {
    return static_cast<uint32_t>(format(low)) | static_cast<uint32_t>(format(high)) << 16;
  };
  std::vector<uint32_t> in;
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (const auto& [i, k] :
         {std::pair(g, 2 * t), {g + 8, 2 * t}, {g, 2 * t + 8}, {g + 8, 2 * t + 8}}) {
      in.push_back(pair(left(i, k), left(i, k + 1)));
    }
    for (const int k : {2 * t, 2 * t + 8}) in.push_back(pair(right(k, g), right(k + 1, g)));
    in.insert(in.end(), {BitsOf(0.5f), 0});
  }
  const auto out = RunSnippet(R"(
    shl.b32 %r1, %r0, 5; cvt.u64.u32 %rd2, %r1; add.s64 %rd3, %rd0, %rd2;
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd3];
    ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd3+16];
    mma.sync.aligned.m16n8k16.row.col.f32.)" +
                                  type + "." + type + R"(.f32
      {%r10, %r11, %r12, %r13}, {%r2, %r3, %r4, %r5}, {%r6, %r7}, {%r8, %r8, %r8, %r9};
    shl.b32 %r1, %r0, 4; cvt.u64.u32 %rd2, %r1; add.s64 %rd3, %rd1, %rd2;
    st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13};
  )",
                              in, 128);
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < 4; ++r) {
      const int i = lane / 4 + r / 2 * 8, j = lane % 4 * 2 + r % 2;
      float sum = r == 3 ? 0.0f : 0.5f;
      for (int k = 0; k < 16; ++k) sum += left(i, k) * right(k, j);
      EXPECT_EQ(FloatOf(out[4 * lane + r]), sum) << type << " " << i << ", " << j;
    }
  }
}

TEST(Matrices, AreMultipliedAsTheManualDrawsThem) {
  ExpectProducts("bf16", &Bf16Of);
  ExpectProducts("f16", &F16Of);
}

TEST(Counts, AreThoseOfWarpsAndOfThreads) {
  Module module(KernelWith(R"(
    setp.lt.u32 %p1, %r0, 10;
    @%p1 bra $FEW;
    bra.uni $END;
$FEW:
    add.s32 %r1, %r0, 1;
$END:
  )"));
  const DeviceVector<uint32_t> memory(1);
  const Counts counts = Launch(module.Find("Snippet"), {3, 64, 0},
                               {ArgumentOf(memory.data()), ArgumentOf(memory.data())});
  EXPECT_EQ(counts.by_opcode.at("setp.lt.u32"), (Counts::Opcode{3 * 2, 3 * 64}));
  EXPECT_EQ(counts.by_opcode.at("add.s32"), (Counts::Opcode{3 * 1, 3 * 10}));
  EXPECT_EQ(counts.by_opcode.at("bra.uni"), (Counts::Opcode{3 * 2, 3 * 54}));
  EXPECT_EQ(counts.IssuedOf("ld.param"), 3 * 2 * 2);
}

}  // namespace
}  // namespace fovea::ptx
