// What the client asks again, how often, and of whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"
#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Client> ClientOf(const std::string& address, const ConnectOptions& options = {}) {
  auto client = Client::Connect(address, options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// gRPC's way to write a name that has several addresses.
std::string AddressOfBoth(const FakeServer& first, const FakeServer& second) {
  return absl::StrCat("ipv4:///", first.address(), ",", second.address());
}

TEST(Retry, AnInferenceThatIsRefusedIsAskedAgain) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server.address());
  const auto answer = client->Classify({.model = {"shapes"}, .images = {"flaky"}});
  EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(server.classified().size(), 3u);
}

TEST(Retry, SoIsOneThatIsLongerThanGrpcsOwnBuffer) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server.address());
  const std::string long_image = "flaky" + std::string(3 << 20, ' ');  // gRPC keeps 256 KiB
  const auto answer = client->Classify({.model = {"shapes"}, .images = {long_image}});
  EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(server.classified().size(), 3u);
}

TEST(Retry, EndsAfterSoManyAttemptsWithTheServersError) {
  FakeServer server{{.name = "shapes"}};
  for (const int attempts : {1, 2, 4}) {
    const size_t before = server.classified().size();
    const auto client = ClientOf(server.address(), {.max_attempts = attempts});
    const absl::Status busy = client->Classify({.model = {"shapes"}, .images = {"busy"}}).status();
    EXPECT_EQ(busy, absl::UnavailableError("the queue is full"));
    EXPECT_FALSE(IsUnreachable(busy));
    EXPECT_EQ(server.classified().size() - before, static_cast<size_t>(attempts));
  }
}

TEST(Retry, TheDeadlineBoundsAllAttempts) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server.address());
  const absl::Status late =
      client
          ->Classify({.model = {"shapes"}, .images = {"busy"}}, {.timeout = absl::Milliseconds(50)})
          .status();
  EXPECT_FALSE(late.ok());
  EXPECT_LE(server.classified().size(), 1u);  // the second would begin after 80 ms at least
}

TEST(Retry, WhatIsWrongIsAskedOnce) {
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server.address());
  EXPECT_TRUE(
      absl::IsInvalidArgument(client->Classify({.model = {"shapes"}, .images = {"bad"}}).status()));
  EXPECT_EQ(server.classified().size(), 1u);
}

TEST(Retry, WhatChangesTheServerIsAskedOnce) {
  FakeServer server{};
  EXPECT_TRUE(absl::IsUnavailable(ClientOf(server.address())->Load("busy")));
  EXPECT_THAT(server.loaded(), ElementsAre("busy"));
}

// Of calls at the same time, which all fail, a hundred at most are made again.
TEST(Retry, AServerThatRefusesEverythingIsNotAskedSeveralTimesAsMuch) {
  constexpr size_t kCalls = 64;
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server.address());
  {
    std::vector<std::jthread> callers;
    for (size_t i = 0; i < kCalls; ++i) {
      callers.emplace_back([&] {
        EXPECT_TRUE(absl::IsUnavailable(
            client->Classify({.model = {"shapes"}, .images = {"busy"}}).status()));
      });
    }
  }
  const size_t asked = server.classified().size();
  EXPECT_GT(asked, kCalls);
  EXPECT_LE(asked, kCalls + 100);
  EXPECT_TRUE(
      absl::IsUnavailable(client->Classify({.model = {"shapes"}, .images = {"busy"}}).status()));
  EXPECT_EQ(server.classified().size(), asked + 1);  // nothing is left to spend
}

// Calls that are refused together. What a busy machine adds makes waits longer, never shorter.
TEST(Retry, CallersDoNotComeBackTogether) {
  constexpr int kCalls = 32;  // three further attempts each are within the budget
  FakeServer server{{.name = "shapes"}};
  const auto client = ClientOf(server.address(), {.max_attempts = 4});
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < kCalls; ++i) {
      callers.emplace_back([&, image = absl::StrCat("busy ", i)] {
        EXPECT_FALSE(client->Classify({.model = {"shapes"}, .images = {image}}).ok());
      });
    }
  }
  const auto asked = server.classified_at();
  ASSERT_EQ(asked.size(), static_cast<size_t>(kCalls));
  // Beyond a quarter of the range: of all waits, and of the longest.
  int early = 0, late = 0;
  for (const auto& [image, times] : asked) {
    ASSERT_EQ(times.size(), 4u) << image;
    for (int wait = 0; wait < 3; ++wait) {
      const double middle_ms = 100 << wait;
      const double ms = absl::ToDoubleMilliseconds(times[wait + 1] - times[wait]);
      EXPECT_GE(ms, 0.8 * middle_ms - 1) << image << ", wait " << wait;  // timers count whole ones
      early += ms < 0.95 * middle_ms;
      if (wait == 2) late += ms > 1.05 * middle_ms;
    }
  }
  // Three in eight of each: that there is none has a probability below a millionth.
  EXPECT_GT(early, 0);
  EXPECT_GT(late, 0);
}

TEST(Retry, CallsGoInTurnToAllAddressesWhereTheyAreToBeBalanced) {
  FakeServer first{{.name = "shapes"}}, second{{.name = "shapes"}};
  const auto client = ClientOf(AddressOfBoth(first, second), {.balance = true});
  const auto ask = [&] {
    return client->Classify({.model = {"shapes"}, .images = {"x"}}).status();
  };
  // The second connection may take a moment longer.
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while ((first.classified().empty() || second.classified().empty()) && absl::Now() < end) {
    ASSERT_TRUE(ask().ok());
  }
  const size_t before[] = {first.classified().size(), second.classified().size()};
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(ask().ok());
  EXPECT_EQ(first.classified().size() - before[0], 5u);
  EXPECT_EQ(second.classified().size() - before[1], 5u);
}

TEST(Retry, WithoutBalanceOneServerHasAllCalls) {
  FakeServer first{{.name = "shapes"}}, second{{.name = "shapes"}};
  const auto client = ClientOf(AddressOfBoth(first, second));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(client->Classify({.model = {"shapes"}, .images = {"x"}}).ok());
  }
  EXPECT_THAT((std::vector{first.classified().size(), second.classified().size()}),
              ::testing::UnorderedElementsAre(0u, 10u));
}

// tests/deploy/test_replicas.py kills one that has calls.
TEST(Retry, AServerThatGoesAwayLeavesItsCallsToTheOther) {
  FakeServer first{{.name = "shapes"}}, second{{.name = "shapes"}};
  const auto client = ClientOf(AddressOfBoth(first, second), {.balance = true});
  const auto ask = [&] {
    return client->Classify({.model = {"shapes"}, .images = {"x"}}).status();
  };
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while ((first.classified().empty() || second.classified().empty()) && absl::Now() < end) {
    ASSERT_TRUE(ask().ok());
  }
  first.Stop();
  const size_t before = second.classified().size();
  for (int i = 0; i < 20; ++i) {
    const absl::Status status = ask();
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(second.classified().size() - before, 20u);
}

TEST(Retry, OtherNumbersOfAttemptsAreRefused) {
  FakeServer server{};
  for (const int attempts : {0, 6, -1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        Client::Connect(server.address(), {.max_attempts = attempts}).status()));
  }
}

}  // namespace
}  // namespace fovea::client
