// What the interpreter refuses: a table of small kernels with a fault each.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/ptx/snippet.h"

namespace fovea::ptx {
namespace {

// Of running the body with 64 threads and an input of four words.
std::string MessageFrom(const std::string& body, unsigned threads = 64) {
  LaunchOptions options;
  options.most_instructions = 100'000;
  return MessageOf([&] { RunSnippet(body, {1, 2, 3, 4}, 64, threads, options); });
}

void ExpectFailure(const std::string& body, const std::string& message) {
  EXPECT_NE(MessageFrom(body).find(message), std::string::npos)
      << body << "\nfails with: " << MessageFrom(body);
}

const char kAddress[] = "shl.b32 %r1, %r0, 2; mov.u32 %r2, shared; add.s32 %r3, %r2, %r1;";

TEST(Checks, BoundsOfEveryMemory) {
  ExpectFailure("ld.global.u32 %r1, [%rd0+16];", "out of bounds");
  ExpectFailure("ld.global.u32 %r1, [%rd0+-4];", "out of bounds");
  ExpectFailure("st.global.u32 [%rd1+256], %r0;", "out of bounds");
  ExpectFailure("mov.u64 %rd2, 0; ld.global.u32 %r1, [%rd2];", "out of bounds");
  ExpectFailure("st.shared.u32 [shared+1024], %r0;", "out of bounds");
  ExpectFailure("st.shared.v4.u32 [shared+-16], {%r0, %r0, %r0, %r0};", "out of bounds");
  ExpectFailure("st.local.u32 [local+64], %r0;", "out of bounds");
  ExpectFailure("mov.u64 %rd2, out; ld.param.u64 %rd3, [%rd2+8];", "out of bounds");
}

TEST(Checks, AlignmentOfEveryMemory) {
  ExpectFailure("ld.global.u32 %r1, [%rd0+2];", "misaligned");
  ExpectFailure("ld.global.v2.u32 {%r1, %r2}, [%rd0+4];", "misaligned");
  ExpectFailure("st.shared.v2.u32 [shared+4], {%r0, %r0};", "misaligned");
  ExpectFailure("st.local.u32 [local+1], %r0;", "misaligned");
  ExpectFailure("cp.async.cg.shared.global [shared+8], [%rd0], 16;", "misaligned");
  ExpectFailure("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [shared+8];",
                "misaligned");
}

TEST(Checks, ReadsOfWhatNothingHasWritten) {
  ExpectFailure("add.s32 %r1, %r2, 1;", "reads register %r2, which is not initialised");
  ExpectFailure("@%p1 add.s32 %r1, %r0, 1;", "reads register %p1, which is not initialised");
  ExpectFailure("setp.eq.s32 %p1, %r0, 1; @%p1 mov.u32 %r1, 1; add.s32 %r2, %r1, 1;",
                "reads register %r1, which is not initialised");
  ExpectFailure("ld.shared.u32 %r1, [shared+8];",
                "reads byte 8 of shared memory, which nothing has written");
  ExpectFailure("ld.local.u32 %r1, [local];", "local memory, which nothing has written");
  // A load that is wider than what is used of it is no fault.
  EXPECT_EQ(MessageFrom(std::string(kAddress) +
                        "shl.b32 %r1, %r0, 3; add.s32 %r3, %r2, %r1;"
                        "st.shared.u32 [%r3], %r0; .pragma \"used_bytes_mask 15\";"
                        "ld.shared.v2.u32 {%r4, %r5}, [%r3];"),
            "");
}

TEST(Checks, RacesBetweenThreads) {
  const std::string address = kAddress;
  ExpectFailure("st.shared.u32 [shared], %r0;", "race: writes byte 0 of shared memory");
  ExpectFailure(address +
                    "st.shared.u32 [%r3], %r0; setp.ge.u32 %p1, %r0, 32;"
                    "xor.b32 %r4, %r3, 128; @%p1 ld.shared.u32 %r5, [%r4];",
                "race: reads");
  // Threads of one warp need its barrier, and it is enough for them.
  const std::string neighbours =
      address + "st.shared.u32 [%r3], %r0;%s xor.b32 %r4, %r3, 4; ld.shared.u32 %r5, [%r4];";
  const auto with = [&](const std::string& barrier) {
    std::string body = neighbours;
    return body.replace(body.find("%s"), 2, barrier);
  };
  ExpectFailure(with(""), "race: reads");
  ExpectFailure(with("shfl.sync.bfly.b32 %r6, %r0, 1, 31, -1;"), "race: reads");
  EXPECT_EQ(MessageFrom(with("bar.warp.sync -1;")), "");
  EXPECT_EQ(MessageFrom(with("bar.sync 0;")), "");
  // Reads of all threads, and then a write by one of them.
  const std::string read_then_write =
      "setp.eq.s32 %p1, %r0, 0; @%p1 st.shared.u32 [shared], %r0; bar.sync 0;"
      "ld.shared.u32 %r1, [shared];%s @%p1 st.shared.u32 [shared], %r0;";
  const auto overwritten = [&](const std::string& barrier) {
    std::string body = read_then_write;
    return body.replace(body.find("%s"), 2, barrier);
  };
  ExpectFailure(overwritten(""), "race: writes");
  ExpectFailure(overwritten("bar.warp.sync -1;"), "race: reads");  // by the second warp
  EXPECT_EQ(MessageFrom(overwritten("bar.sync 0;")), "");
}

TEST(Checks, CopiesThatAreStillUnderWay) {
  const std::string copy =
      "shl.b32 %r1, %r0, 4; mov.u32 %r2, shared; add.s32 %r3, %r2, %r1;"
      "cp.async.cg.shared.global [%r3], [%rd0], 16;";
  const std::string commit = "cp.async.commit_group;";
  const std::string await = "cp.async.wait_group 0;";
  const std::string read = "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];";
  ExpectFailure(copy + read, "while a cp.async of thread 0 is under way");
  ExpectFailure(copy + commit + read, "is under way");
  ExpectFailure(copy + await + read, "is under way");  // the group is not committed
  ExpectFailure(copy + commit + "cp.async.wait_group 1;" + read, "is under way");
  ExpectFailure(copy + commit + "bar.sync 0;" + read, "is under way");
  EXPECT_EQ(MessageFrom(copy + commit + await + read), "");
  const std::string read_other = "setp.ge.u32 %p1, %r0, 32; xor.b32 %r3, %r3, 512; @%p1 " + read;
  ExpectFailure(copy + commit + await + read_other, "race: reads");
  EXPECT_EQ(MessageFrom(copy + commit + await + "bar.sync 0;" + read_other), "");
  // It is read when it lands.
  const auto out = RunSnippet(copy + commit + "mov.u32 %r8, 9; st.global.u32 [%rd0], %r8;" + await +
                                  read + "st.global.u32 [%rd1], %r4;",
                              {1, 2, 3, 4}, 1, 1);
  EXPECT_EQ(out[0], 9u);
}

TEST(Checks, CollectivesThatLanesMiss) {
  const std::string some = "setp.lt.u32 %p1, %r0, 20;";
  ExpectFailure(
      some + "@%p1 bra $END; shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\n$END:\n",
      "lanes that a collective instruction names never come to it:\n  thread 0 has ended");
  ExpectFailure(some + "@%p1 vote.sync.ballot.b32 %r1, %p1, -1; bar.sync 0;", "never come to it");
  ExpectFailure(some + "@%p1 bar.warp.sync -1; bar.sync 0;", "thread 20 waits at bar.sync 0");
  ExpectFailure(some +
                    "@%p1 bra $END; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                    "{%r1, %r2, %r3, %r4}, {%r0, %r0, %r0, %r0}, {%r0, %r0}, {%r0, %r0, %r0, %r0};"
                    "\n$END:\n",
                "never come to it");
  ExpectFailure(some +
                    "@%p1 bra $END; ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                    "{%r1, %r2, %r3, %r4}, [shared];\n$END:\n",
                "never come to it");
  ExpectFailure("vote.sync.any.pred %p1, %p1, 1;", "not initialised");
  ExpectFailure(some + "vote.sync.any.pred %p1, %p1, 1;", "not among those that it names itself");
  ExpectFailure(some + "@%p1 shfl.sync.bfly.b32 %r1, %r0, 31, 31, 0xFFFFF; bar.sync 0;",
                "takes no part in the shuffle");
}

TEST(Checks, BarriersThatThreadsMiss) {
  ExpectFailure("setp.lt.u32 %p1, %r0, 40; @%p1 bar.sync 0;",
                "thread 40 does not come to the barrier: it has ended");
  ExpectFailure(
      "setp.lt.u32 %p1, %r0, 32; @%p1 bra $A; bar.sync 0; bra.uni $END;\n$A:\n"
      "bar.sync 1;\n$END:\n",
      "does not come to the barrier: it waits at bar.sync");
}

TEST(Checks, LaunchesThatDoNotEnd) {
  ExpectFailure("$LOOP:\n bra.uni $LOOP;", "does not end within its limit of instructions");
}

TEST(Checks, MessagesNameThePlace) {
  const std::string message =
      MessageFrom("setp.eq.s32 %p1, %r0, 37; @%p1 ld.global.u32 %r1, [%rd0+64];");
  for (const char* part : {"instruction: @%p1 ld.global.u32 %r1, [%rd0+64]",
                           "thread: 37 of block 0", "kernel: Snippet"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(Checks, InstructionsThatAreNotKnown) {
  ExpectFailure("sin.approx.f32 %r1, %r0;", "unknown instruction \"sin.approx.f32\"");
  ExpectFailure("add.cc.s32 %r1, %r0, %r0;", "unknown instruction \"add.cc.s32\"");
  ExpectFailure("ld.volatile.global.u32 %r1, [%rd0];", "unknown instruction");
  ExpectFailure("cvt.rz.bf16.f32 %h1, %r0;", "unknown instruction");
  ExpectFailure("shfl.sync.bfly.b32 %r1, %r0, 1, 31;", "wrong operands");
  ExpectFailure("add.s64 %rd2, %rd1, %r0;", "a register of another width: %r0");
  ExpectFailure("mov.u32 %r1, %clock;", "unknown operand \"%clock\"");
  ExpectFailure("mov.u32 %r1, nowhere;", "unknown operand \"nowhere\"");
  ExpectFailure("bra $NOWHERE;", "no label $NOWHERE");
  ExpectFailure("add.s32 %r77, %r0, 1;", "unknown operand \"%r77\"");
}

TEST(Checks, LaunchesThatCannotBe) {
  Module module(KernelWith(""));
  const Program& program = module.Find("Snippet");
  const DeviceVector<uint32_t> memory(1);
  const Argument pointer = ArgumentOf(memory.data());
  const auto message = [&](const Grid& grid, const std::vector<Argument>& arguments) {
    return MessageOf([&] { Launch(program, grid, arguments); });
  };
  EXPECT_EQ(message({1, 32, 0}, {pointer, pointer}), "");
  EXPECT_NE(message({1, 32, 0}, {pointer}).find("takes 2 arguments, not 1"), std::string::npos);
  EXPECT_NE(message({1, 32, 0}, {pointer, Argument(4)}).find("has 4 bytes, not 8"),
            std::string::npos);
  EXPECT_NE(message({1, 256, 0}, {pointer, pointer}).find("is compiled for 128"),
            std::string::npos);
  EXPECT_NE(message({1, 32, 232'448}, {pointer, pointer}).find("more shared memory"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea::ptx
