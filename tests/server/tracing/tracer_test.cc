#include "server/tracing/tracer.h"

#include <gtest/gtest.h>

#include <set>

#include "server/core/testing/fake_clock.h"
#include "tests/server/tracing/fake_sink.h"

namespace fovea {
namespace {

class TracerTest : public ::testing::Test {
 protected:
  TracerTest() {
    exporter_ =
        *SpanExporter::Create({}, std::make_unique<FakeSink>(collector_), observer_, clock_);
  }
  Tracer Make(TracerOptions options) { return Tracer(std::move(options), exporter_.get(), clock_); }
  static TraceParent Remote(bool sampled) {
    return {.context = {.trace = {7, 8}, .span = 9, .sampled = sampled, .state = "a=b"},
            .local = {}};
  }

  FakeClock clock_;
  Collector collector_;
  CountingObserver observer_;
  std::unique_ptr<SpanExporter> exporter_;
};

TEST_F(TracerTest, WithoutACollectorTheCallersContextIsPassedOn) {
  Tracer tracer({}, nullptr, clock_);
  const RequestTrace trace = tracer.Start(Remote(true), "m");
  EXPECT_FALSE(trace.recorded);
  EXPECT_EQ(trace.context.trace, (TraceId{7, 8}));
  EXPECT_EQ(trace.context.span, 9u);
  EXPECT_TRUE(trace.context.sampled);
  EXPECT_FALSE(tracer.Start({}, "m").context.valid());
}

TEST_F(TracerTest, ACallersDecisionIsFollowedWhateverTheSampling) {
  Tracer none = Make({.sampling = 0}), all = Make({.sampling = 1});
  const RequestTrace trace = none.Start(Remote(true), "m");
  ASSERT_TRUE(trace.recorded);
  EXPECT_EQ(trace.context.trace, (TraceId{7, 8}));
  EXPECT_NE(trace.context.span, 9u);
  EXPECT_EQ(trace.parent, 9u);
  EXPECT_TRUE(trace.remote_parent);
  EXPECT_EQ(trace.context.state, "a=b");
  const RequestTrace not_sampled = all.Start(Remote(false), "m");
  EXPECT_FALSE(not_sampled.recorded);
  EXPECT_EQ(not_sampled.context.span, 9u);
}

TEST_F(TracerTest, ForcedTracesAreBoundedBySecond) {
  int refused = 0;
  Tracer tracer =
      Make({.sampling = 0, .max_forced_per_second = 3, .on_not_forced = [&refused] { ++refused; }});
  const auto recorded = [&](int requests) {
    int count = 0;
    for (int i = 0; i < requests; ++i) count += tracer.Start(Remote(true), "m").recorded;
    return count;
  };
  EXPECT_EQ(recorded(10), 3);
  EXPECT_EQ(refused, 7);
  clock_.Advance(kSecond - 1);
  EXPECT_EQ(recorded(10), 0);
  clock_.Advance(1);
  EXPECT_EQ(recorded(2), 2);
  Tracer never = Make({.max_forced_per_second = 0});
  EXPECT_FALSE(never.Start(Remote(true), "m").recorded);
  EXPECT_TRUE(never.Start({}, "m").recorded) << "our own sampling has no such bound";
}

TEST_F(TracerTest, ATraceThatBeginsHereHasIdsOfItsOwn) {
  Tracer tracer = Make({});
  std::set<SpanId> spans;
  std::set<uint64_t> traces;
  for (int i = 0; i < 1000; ++i) {
    const RequestTrace trace = tracer.Start({}, "m");
    ASSERT_TRUE(trace.recorded && trace.context.valid());
    EXPECT_EQ(trace.parent, 0u);
    EXPECT_FALSE(trace.remote_parent);
    spans.insert(trace.context.span);
    traces.insert(trace.context.trace.low);
  }
  EXPECT_EQ(spans.size(), 1000u);
  EXPECT_EQ(traces.size(), 1000u);
}

TEST_F(TracerTest, TheSamplingsShareIsTraced) {
  Tracer tracer = Make({.sampling = 0.25});
  int recorded = 0;
  for (int i = 0; i < 4000; ++i) recorded += tracer.Start({}, "m").recorded;
  // Six standard deviations of a binomial are 164.
  EXPECT_NEAR(recorded, 1000, 164);
}

TEST_F(TracerTest, RequestsOfAStreamGoWithIt) {
  Tracer tracer = Make({.sampling = 1, .max_forced_per_second = 0});
  const RequestTrace stream = tracer.Start({}, "");
  ASSERT_TRUE(stream.recorded);
  for (int i = 0; i < 5; ++i) {
    const RequestTrace request = tracer.Start(stream.AsParent(), "m");
    EXPECT_TRUE(request.recorded);
    EXPECT_EQ(request.parent, stream.context.span);
    EXPECT_FALSE(request.remote_parent);
    EXPECT_EQ(request.wall, stream.wall);
  }
  const RequestTrace unrecorded = tracer.Start(Remote(true), "");  // one too many
  ASSERT_FALSE(unrecorded.recorded);
  EXPECT_FALSE(tracer.Start(unrecorded.AsParent(), "m").recorded);
}

TEST_F(TracerTest, EachRequestOfAStreamThatIsForcedCounts) {
  Tracer tracer = Make({.sampling = 0, .max_forced_per_second = 4});
  const RequestTrace stream = tracer.Start(Remote(true), "");
  ASSERT_TRUE(stream.recorded);
  int recorded = 0;
  for (int i = 0; i < 10; ++i) recorded += tracer.Start(stream.AsParent(), "m").recorded;
  EXPECT_EQ(recorded, 3);
  clock_.Advance(kSecond);
  EXPECT_TRUE(tracer.Start(stream.AsParent(), "m").recorded);
  ASSERT_TRUE(tracer.settings().Change("m", {{"trace_level", {"OFF"}}}).ok());
  EXPECT_FALSE(tracer.Start(stream.AsParent(), "m").recorded) << "switched off meanwhile";
}

TEST_F(TracerTest, ASwitchedOffModelIsNotTracedThoughItsCallerAsks) {
  Tracer tracer = Make({});
  ASSERT_TRUE(tracer.settings().Change("m", {{"trace_level", {"OFF"}}}).ok());
  EXPECT_FALSE(tracer.Start(Remote(true), "m").recorded);
  EXPECT_FALSE(tracer.Start({}, "m").recorded);
  EXPECT_TRUE(tracer.Start({}, "other").recorded);
}

}  // namespace
}  // namespace fovea
