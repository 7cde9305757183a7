// Row 48 of docs/faults.md, for every protocol: they all ask here.
#include "server/api/authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "server/core/testing/fake_clock.h"

namespace fovea {
namespace {

ApiKey MakeKey(std::string name, std::string_view key, std::string_view group = "inference",
               KeyLimits limits = {}) {
  ApiKey made{.name = std::move(name), .digest = DigestOf(key), .limits = limits};
  EXPECT_TRUE(made.groups.Add(group));
  return made;
}

class AuthenticatorTest : public ::testing::Test {
 protected:
  Caller Identify(std::vector<std::string_view> authorization,
                  ApiGroup group = ApiGroup::kInference) {
    return authenticator_.Identify({.authorization = authorization}, group, port_);
  }
  std::string Refused(std::vector<std::string_view> authorization,
                      ApiGroup group = ApiGroup::kInference) {
    const absl::Status refused = Identify(std::move(authorization), group).refused;
    return absl::StrCat(absl::StatusCodeToString(refused.code()), " ", ReasonOf(refused));
  }

  FakeClock clock_;
  ApiGroups port_ = ApiGroups::All();
  Authenticator authenticator_;
};

TEST_F(AuthenticatorTest, NobodyNeedsAKeyUntilThereAreSome) {
  EXPECT_TRUE(Identify({}).Admit(0).ok());
  EXPECT_TRUE(Identify({"Bearer anything"}).Admit(0).ok());
}

TEST_F(AuthenticatorTest, Row48WhoShowsAKeyIsKnownByItsName) {
  authenticator_.SetKeys({MakeKey("team-a", "secret-a"), MakeKey("team-b", "secret-b")});
  for (const std::string_view shown : {"Bearer secret-b", "bearer secret-b", "BEARER secret-b"}) {
    Caller caller = Identify({shown});
    EXPECT_TRUE(caller.Admit(0).ok());
    EXPECT_EQ(caller.principal, "team-b");
    EXPECT_EQ(caller.key, "team-b");
  }
}

TEST_F(AuthenticatorTest, Row48WhatIsNoKeyIsUnauthenticated) {
  authenticator_.SetKeys({MakeKey("team-a", "secret-a")});
  const std::string long_key(limits::kMaxCredentialBytes + 1, 'x');
  const std::string long_header = absl::StrCat("Bearer ", long_key);
  EXPECT_EQ(Refused({}), "UNAUTHENTICATED auth.no_key");
  EXPECT_EQ(Refused({"Bearer secret-a", "Bearer secret-a"}), "UNAUTHENTICATED auth.several_keys");
  for (const std::string_view shown :
       {std::string_view(""), std::string_view("Bearer"), std::string_view("Bearer "),
        std::string_view("secret-a"), std::string_view("Basic secret-a"),
        std::string_view("Bearer  secret-a"), std::string_view("Bearer secret-a "),
        std::string_view("Bearer secret-a,Bearer x"), std::string_view("Bearer secret-a\0", 16),
        std::string_view(long_header)}) {
    EXPECT_EQ(Refused({shown}), "UNAUTHENTICATED auth.malformed") << shown;
  }
  for (const std::string_view shown : {"Bearer secret", "Bearer secret-aa", "Bearer SECRET-A"}) {
    EXPECT_EQ(Refused({shown}), "UNAUTHENTICATED auth.unknown_key") << shown;
  }
}

TEST_F(AuthenticatorTest, Row48AKeyAllowsItsGroupsAndNoOthers) {
  authenticator_.SetKeys({MakeKey("team-a", "secret-a", "statistics")});
  EXPECT_TRUE(Identify({"Bearer secret-a"}, ApiGroup::kStatistics).refused.ok());
  for (const ApiGroup group : {ApiGroup::kInference, ApiGroup::kRepository, ApiGroup::kMetadata,
                               ApiGroup::kSharedMemory, ApiGroup::kSettings}) {
    EXPECT_EQ(Refused({"Bearer secret-a"}, group), "PERMISSION_DENIED auth.group_not_allowed");
  }
}

TEST_F(AuthenticatorTest, Row48APortAnswersItsGroupsAndNoOthersWhateverTheKey) {
  authenticator_.SetKeys({MakeKey("admin", "secret", "repository")});
  port_ = {};
  EXPECT_TRUE(port_.Add("inference"));
  EXPECT_EQ(Refused({"Bearer secret"}, ApiGroup::kRepository),
            "PERMISSION_DENIED auth.group_closed");
}

TEST_F(AuthenticatorTest, HealthIsOpenToEveryoneOnEveryPort) {
  authenticator_.SetKeys({MakeKey("team-a", "secret-a")});
  port_ = {};
  EXPECT_TRUE(Identify({}, ApiGroup::kHealth).refused.ok());
  EXPECT_TRUE(Identify({"Bearer wrong"}, ApiGroup::kHealth).refused.ok());
}

TEST_F(AuthenticatorTest, PagesAreOpenToEveryoneWhereThePortAnswersThem) {
  authenticator_.SetKeys({MakeKey("team-a", "secret-a")});
  EXPECT_TRUE(Identify({}, ApiGroup::kPlayground).refused.ok());
  EXPECT_TRUE(Identify({"Bearer wrong"}, ApiGroup::kPlayground).refused.ok());
  port_.Remove(ApiGroup::kPlayground);
  EXPECT_EQ(Refused({"Bearer secret-a"}, ApiGroup::kPlayground),
            "PERMISSION_DENIED auth.group_closed");
}

TEST_F(AuthenticatorTest, ACertificateNamesItsCallerWhereNoKeyDoes) {
  EXPECT_EQ(authenticator_.Identify({.certificate = "robot.example"}, ApiGroup::kInference, port_)
                .principal,
            "robot.example");
}

TEST_F(AuthenticatorTest, KeysThatAreGoneAreNotKnownAndThoseThatStayKeepTheirCount) {
  const KeyLimits one{.concurrency = 1};
  authenticator_.SetKeys(
      {MakeKey("old", "secret-old"), MakeKey("team-a", "secret-a", "inference", one)});
  Caller first = Identify({"Bearer secret-a"});
  ASSERT_TRUE(first.Admit(0).ok());
  authenticator_.SetKeys({MakeKey("team-a", "secret-new", "inference", one)});
  EXPECT_EQ(Refused({"Bearer secret-old"}), "UNAUTHENTICATED auth.unknown_key");
  EXPECT_EQ(Refused({"Bearer secret-a"}), "UNAUTHENTICATED auth.unknown_key");
  Caller second = Identify({"Bearer secret-new"});
  EXPECT_EQ(ReasonOf(second.Admit(0)), "quota.concurrency");
  first.Leave();
  EXPECT_TRUE(second.Admit(0).ok());
}

TEST_F(AuthenticatorTest, RequestsUnderWayAreCountedUntilTheyLeaveHoweverTheyEnd) {
  authenticator_.SetKeys({MakeKey("a", "secret", "inference", {.concurrency = 2})});
  std::vector<Caller> callers;
  for (int i = 0; i < 2; ++i) {
    callers.push_back(Identify({"Bearer secret"}));
    EXPECT_TRUE(callers.back().Admit(0).ok());
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReasonOf(Identify({"Bearer secret"}).Admit(0)), "quota.concurrency");
  }
  callers.pop_back();
  EXPECT_TRUE(Identify({"Bearer secret"}).Admit(0).ok());
}

TEST_F(AuthenticatorTest, ARateAllowsItsBurstAtOnceAndThenOneEachInterval) {
  authenticator_.SetKeys(
      {MakeKey("a", "secret", "inference", {.requests_per_second = 10, .burst = 3})});
  const auto ask = [&] { return ReasonOf(Identify({"Bearer secret"}).Admit(clock_.Now())); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(), "") << i;
  EXPECT_EQ(ask(), "quota.rate");
  clock_.Advance(kSecond / 10 - 1);
  EXPECT_EQ(ask(), "quota.rate");  // what is refused is not counted
  clock_.Advance(1);
  EXPECT_EQ(ask(), "");
  EXPECT_EQ(ask(), "quota.rate");
  clock_.Advance(kSecond);  // a rest saves up no more than the burst
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(), "") << i;
  EXPECT_EQ(ask(), "quota.rate");
}

TEST_F(AuthenticatorTest, WhoHasUsedALongBurstIsNotHeldToItUnderNewLimits) {
  authenticator_.SetKeys(
      {MakeKey("a", "secret", "inference", {.requests_per_second = 1, .burst = 3600})});
  const auto ask = [&] { return ReasonOf(Identify({"Bearer secret"}).Admit(clock_.Now())); };
  while (ask().empty()) {
  }
  authenticator_.SetKeys(
      {MakeKey("a", "secret", "inference", {.requests_per_second = 100, .burst = 100})});
  EXPECT_EQ(ask(), "quota.rate");  // a burst of the new ones has been used
  clock_.Advance(kSecond / 100);
  EXPECT_EQ(ask(), "");
}

TEST_F(AuthenticatorTest, ACallIsCountedOnceHoweverOftenItIsAsked) {
  authenticator_.SetKeys({MakeKey("a", "secret", "inference", {.concurrency = 1})});
  Caller caller = Identify({"Bearer secret"});
  EXPECT_TRUE(caller.Admit(0).ok());
  EXPECT_TRUE(caller.Admit(0).ok());
  caller.Leave();
  EXPECT_TRUE(Identify({"Bearer secret"}).Admit(0).ok());
}

// printf %s secret | sha256sum
constexpr char kDigest[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

TEST(ApiKeysTest, EveryMemberIsRead) {
  const auto keys = ParseApiKeys(absl::StrCat(
      R"({"keys": [{"name": "team-a", "groups": ["inference"], "requests_per_second": 5,
          "concurrency": 7, "sha256": ")",
      kDigest, "\"}]}"));
  ASSERT_TRUE(keys.ok()) << keys.status();
  const ApiKey& key = keys->at(0);
  EXPECT_EQ(key.name, "team-a");
  EXPECT_EQ(key.digest, DigestOf("secret"));
  EXPECT_TRUE(key.groups.Has(ApiGroup::kInference));
  EXPECT_FALSE(key.groups.Has(ApiGroup::kRepository));
  EXPECT_EQ(key.limits.requests_per_second, 5);
  EXPECT_EQ(key.limits.burst, 5);
  EXPECT_EQ(key.limits.concurrency, 7);
}

TEST(ApiKeysTest, WhatIsWrongInAFileIsTold) {
  const auto told = [](std::string text) {
    const size_t at = text.find("DIGEST");
    if (at != text.npos) text.replace(at, 6, kDigest);
    return std::string(ParseApiKeys(text).status().message());
  };
  const auto one = [&](std::string_view members) {
    return told(absl::StrCat(R"({"keys": [{"sha256": "DIGEST", )", std::string(members), "}]}"));
  };
  EXPECT_EQ(told(R"({"keys": [{"name": "a", "sha256": "d5f9"}]})"),
            "keys[0]: 'sha256' is not 64 hexadecimal digits");
  EXPECT_EQ(told(""), "no JSON object, or one that names something twice");
  EXPECT_EQ(told(R"({"keys": [], "keys": []})"),
            "no JSON object, or one that names something twice");
  EXPECT_EQ(told("{}"), "'keys' is no list");
  EXPECT_EQ(told(R"({"keys": []})"), "a file has 1 to 256 keys");
  EXPECT_EQ(told(R"({"keys": [1]})"), "keys[0]: no object");
  EXPECT_EQ(told(R"({"keys": [{}], "x": 1})"), "unknown member 'x'");
  EXPECT_THAT(one(R"("name": "a b")"), testing::HasSubstr("keys[0]: 'name' is not 1 to 64"));
  EXPECT_EQ(one(R"("name": "a")"), "keys[0]: 'groups' is no list of groups");
  EXPECT_EQ(one(R"("name": "a", "groups": ["all"])"), "keys[0]: 'all' is no group of methods");
  EXPECT_EQ(one(R"("name": "a", "groups": ["inference"], "rate": 1)"),
            "keys[0]: unknown member 'rate'");
  EXPECT_EQ(one(R"("name": "a", "groups": ["inference"], "burst": 2)"),
            "keys[0]: 'burst' without 'requests_per_second'");
  for (const std::string_view value : {"0", "-1", "1.5", "\"1\"", "1e9", "18446744073709551616"}) {
    EXPECT_EQ(one(absl::StrCat(R"("name": "a", "groups": ["inference"], "concurrency": )",
                               std::string(value))),
              "keys[0]: 'concurrency' is no whole number from 1 to 1000000")
        << value;
  }
  const std::string key =
      absl::StrCat(R"({"name": "a", "groups": ["inference"], "sha256": ")", kDigest, "\"}");
  EXPECT_EQ(told(absl::StrCat("{\"keys\": [", key, ",", key, "]}")),
            "keys[1]: the same name or digest as another key");
}

}  // namespace
}  // namespace fovea
