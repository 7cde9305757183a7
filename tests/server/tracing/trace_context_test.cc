#include "server/tracing/trace_context.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace fovea {
namespace {

constexpr std::string_view kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TraceContext Read(std::vector<std::string_view> parents,
                  std::vector<std::string_view> states = {}) {
  return ReadTraceContext(parents, states);
}

TEST(TraceContextTest, ReadsAndWritesVersion00) {
  const TraceContext context = Read({kParent});
  ASSERT_TRUE(context.valid());
  EXPECT_EQ(context.trace.high, 0x4bf92f3577b34da6u);
  EXPECT_EQ(context.trace.low, 0xa3ce929d0e0e4736u);
  EXPECT_EQ(context.span, 0x00f067aa0ba902b7u);
  EXPECT_TRUE(context.sampled);
  EXPECT_EQ(TraceParentText(context), kParent);
  EXPECT_EQ(TraceIdText(context.trace), "4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST(TraceContextTest, NothingIsWrittenOfNone) {
  EXPECT_EQ(TraceParentText({}), "");
  EXPECT_EQ(TraceIdText({}), "");
}

TEST(TraceContextTest, OfTheFlagsTheFirstCounts) {
  std::string parent(kParent);
  const std::pair<std::string, bool> flags[] = {{"00", false}, {"01", true}, {"02", false},
                                                {"03", true},  {"ff", true}, {"fe", false}};
  for (const auto& [text, sampled] : flags) {
    parent.replace(53, 2, text);
    EXPECT_EQ(Read({parent}).sampled, sampled) << text;
  }
}

TEST(TraceContextTest, LaterVersionsAreReadAsFarAsWeKnowThem) {
  std::string parent(kParent);
  parent.replace(0, 2, "cc");
  EXPECT_TRUE(Read({parent}).valid());
  EXPECT_TRUE(Read({parent + "-what-comes-later"}).valid());
  EXPECT_FALSE(Read({parent + "no hyphen"}).valid());
  EXPECT_FALSE(Read({parent + "."}).valid());
}

// docs/faults.md, row 82.
TEST(TraceContextTest, WhatIsMalformedIsNone) {
  const auto with = [](size_t at, std::string_view text) {
    std::string parent(kParent);
    return parent.replace(at, text.size(), text);
  };
  for (const std::string& bad : {
           std::string(),
           std::string("00"),
           std::string(kParent.substr(0, 54)),
           std::string(kParent) + "-",
           std::string(kParent) + "-00",
           " " + std::string(kParent),
           with(0, "ff"),
           with(0, "0x"),
           with(2, "_"),
           with(35, "_"),
           with(52, "_"),
           with(3, "4BF9"),
           with(36, "00F0"),
           with(53, "0G"),
           with(3, "00000000000000000000000000000000"),
           with(36, "0000000000000000"),
           with(10, std::string_view("\0", 1)),
           with(10, "-"),
       }) {
    EXPECT_FALSE(Read({bad}).valid()) << bad;
  }
  EXPECT_FALSE(Read({}).valid());
  EXPECT_FALSE(Read({kParent, kParent}).valid()) << "two of them";
}

TEST(TraceContextTest, StateIsPassedOnAsItCame) {
  for (const std::string_view state :
       {"rojo=00f067aa0ba902b7", "rojo=1,congo=t61rcWkgMzE", "a=b , c=d", "fw529a3039@dt=FfAxs,x=1",
        "1tenant@sys=v", "a=b,,c=d", "k_-*/0=!x y~", "vendor= leading blank"}) {
    EXPECT_EQ(Read({kParent}, {state}).state, state);
  }
  EXPECT_EQ(Read({kParent}, {"a=1", "b=2"}).state, "a=1,b=2") << "a list over several headers";
}

TEST(TraceContextTest, AMalformedStateIsLeftOutAlone) {
  std::string many = "k0=v";
  for (int i = 1; i < 33; ++i) many += ",k" + std::to_string(i) + "=v";
  for (const std::string& state :
       {std::string(), std::string("novalue"), std::string("=v"), std::string("k="),
        std::string("K=v"), std::string("1k=v"), std::string("a@=v"), std::string("@s=v"),
        std::string("a@b@c=v"), std::string("k=a=b"), std::string("k=v\x01"),
        std::string("k=\xc3\xa9"), std::string("k=v,k=w"), std::string(" , "),
        "a@" + std::string(15, 's') + "=v", std::string(257, 'k') + "=v",
        "k=" + std::string(257, 'v'), many,
        "a=" + std::string(255, 'v') + ",b=" + std::string(255, 'v')}) {
    const TraceContext context = Read({kParent}, {state});
    EXPECT_TRUE(context.valid());
    EXPECT_EQ(context.state, "") << state;
  }
}

TEST(TraceContextTest, StateWithoutAParentIsNone) {
  EXPECT_EQ(Read({"junk"}, {"a=b"}).state, "");
  EXPECT_EQ(Read({}, {"a=b"}).state, "");
}

TEST(TraceContextTest, TheBoundOnStateIsOnAllOfIt) {
  const std::string half(253, 'v');  // with its name and equals sign 255
  EXPECT_NE(Read({kParent}, {"a=" + half, "b=" + half}).state, "");  // 511 with the comma
  const std::string fit = "b=" + half + "v";
  EXPECT_EQ(Read({kParent}, {"a=" + half, fit}).state.size(), 512u);
  EXPECT_EQ(Read({kParent}, {"a=" + half + "v", fit}).state, "");
}

}  // namespace
}  // namespace fovea
