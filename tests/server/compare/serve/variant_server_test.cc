#include "server/compare/serve/variant_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/core/testing/fake_clock.h"
#include "server/core/testing/notification.h"
#include "tests/server/compare/serve/variant_catalog_fixture.h"

namespace fovea {
namespace {

class VariantServerTest : public VariantCatalogTest {
 protected:
  ~VariantServerTest() override { server_.reset(); }

  void StartServer(const VariantServerOptions& options = {}) {
    server_.reset();
    server_ = *VariantServer::Create(options, *variants_, clock_);
  }
  // A call, and what it is told.
  struct Call {
    const CancellationPtr cancellation = std::make_shared<Cancellation>();
    std::promise<std::vector<ServedVariant>> served;
    std::atomic<int> told = 0;  // what is served, so often
    std::promise<absl::Status> done;

    std::vector<ServedVariant> AwaitServed() { return served.get_future().get(); }
    absl::Status AwaitDone() { return done.get_future().get(); }
  };
  // `loads` is called before each variant is loaded.
  std::shared_ptr<Call> StartCall(
      std::vector<Variant> variants, std::function<void()> loads = [] {}) {
    auto call = std::make_shared<Call>();
    server_->Serve(
        {.variants = std::move(variants)}, call->cancellation,
        [loads = std::move(loads)](const ComparisonProgress& progress) {
          if (progress.phase == ComparisonProgress::Phase::kLoading) loads();
        },
        [call](std::vector<ServedVariant> served) {
          if (call->told++ == 0) call->served.set_value(std::move(served));
        },
        [call](absl::Status status) { call->done.set_value(std::move(status)); });
    return call;
  }
  static Variant Knn(int k) {
    return {.model_name = "classifier", .attention = "knn:k=" + std::to_string(k)};
  }
  static std::string Why(const absl::Status& status) { return ReasonOf(status); }

  FakeClock clock_;
  std::unique_ptr<VariantServer> server_;
};

TEST_F(VariantServerTest, VariantsAreServedUntilTheCallerGoes) {
  StartServer();
  const auto call = StartCall({{.model_name = "classifier"}, Knn(3)});
  const std::vector<ServedVariant> served = call->AwaitServed();
  ASSERT_EQ(served.size(), 2u);
  EXPECT_EQ(served[0].served_as, "classifier");
  EXPECT_EQ(served[1].served_as, kKnn);
  EXPECT_TRUE(Ask(kKnn).ok());
  call->cancellation->Cancel();
  EXPECT_EQ(Why(call->AwaitDone()), "serve.cancelled");
  EXPECT_FALSE(Ask(kKnn).ok());
}

TEST_F(VariantServerTest, TheyAreNamedAgainAndAgain) {
  StartServer();
  const auto call = StartCall({Knn(3)});
  call->AwaitServed();
  for (int told = 2; told < 5; ++told) {
    while (clock_.NextWake() == kNever) std::this_thread::yield();
    clock_.Advance(2 * kSecond);
    while (call->told < told) std::this_thread::yield();
  }
  EXPECT_TRUE(Ask(kKnn).ok());
}

// Row 91.
TEST_F(VariantServerTest, ACallThatFailsServesNothing) {
  StartServer();
  EXPECT_EQ(Why(StartCall({})->AwaitDone()), "serve.bad_request");
  EXPECT_EQ(Why(StartCall(std::vector<Variant>(9, Knn(3)))->AwaitDone()), "serve.bad_request");
  EXPECT_EQ(
      Why(StartCall({Knn(3), {.model_name = "classifier", .attention = "axial"}})->AwaitDone()),
      "model.load_failed");
  AwaitGone(kKnn);
}

// Row 92.
TEST_F(VariantServerTest, CallsAreBounded) {
  StartServer({.max_calls = 1});
  const auto first = StartCall({Knn(3)});
  first->AwaitServed();
  EXPECT_EQ(Why(StartCall({Knn(3)})->AwaitDone()), "serve.busy");
  first->cancellation->Cancel();
  EXPECT_EQ(Why(first->AwaitDone()), "serve.cancelled");
  const auto second = StartCall({Knn(3)});
  EXPECT_EQ(second->AwaitServed().size(), 1u);
}

// Row 92.
TEST_F(VariantServerTest, CallsThatWaitForAnothersVariantsAreBounded) {
  StartServer({.max_waiting = 1});
  Notification loads, go_on;
  const auto first = StartCall({Knn(3)}, [&] {
    loads.Notify();
    go_on.Wait();
  });
  loads.Wait();
  const auto second = StartCall({Knn(3)});
  EXPECT_EQ(Why(StartCall({Knn(3)})->AwaitDone()), "serve.busy");
  go_on.Notify();
  EXPECT_EQ(first->AwaitServed().size(), 1u);
  EXPECT_EQ(second->AwaitServed().size(), 1u);
}

// Nobody has cancelled it: callers try again elsewhere, which who cancels does not.
TEST_F(VariantServerTest, ACallWhoseVariantsAreThereAsLoadsAreGivenUpHearsOfTheStop) {
  StartServer();
  const auto call = StartCall({{.model_name = "classifier"}}, [this] { server_->CancelLoads(); });
  EXPECT_EQ(Why(call->AwaitDone()), "server.draining");
}

// Row 92.
TEST_F(VariantServerTest, ADayEndsACall) {
  StartServer();
  const auto call = StartCall({Knn(3)});
  call->AwaitServed();
  clock_.AwaitWaiters(1);
  while (clock_.NextWake() == kNever) std::this_thread::yield();
  clock_.Advance(limits::kMaxServeSeconds * kSecond);
  const absl::Status status = call->AwaitDone();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_EQ(Why(status), "serve.too_long");
  EXPECT_FALSE(Ask(kKnn).ok());
}

TEST_F(VariantServerTest, AStopEndsAllCalls) {
  StartServer();
  const auto call = StartCall({Knn(3)});
  call->AwaitServed();
  server_->Stop();
  EXPECT_EQ(Why(call->AwaitDone()), "server.draining");
  EXPECT_EQ(Why(StartCall({Knn(3)})->AwaitDone()), "server.draining");
  EXPECT_FALSE(Ask(kKnn).ok());
}

}  // namespace
}  // namespace fovea
