// What versions are called besides their numbers: docs/faults.md, row 69.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/status.h"
#include "tests/server/repository/repository_fixture.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VersionLabelsTest : public RepositoryFixture {
 protected:
  // Serves the latest two.
  void Describe(const std::string& labels) {
    disk_.Write(
        "cats/model.textproto",
        kPlainSpec + std::string("version_policy { latest { num_versions: 2 } }\n") + labels);
  }
  std::string VersionOf(std::string_view label) {
    const auto view = repository_->Find("cats", label);
    return view.ok() ? (*view)->version : std::string(view.status().message());
  }
};

TEST_F(VersionLabelsTest, ALabelIsAVersionWhereverOneIs) {
  Describe(
      "version_labels { key: \"stable\" value: 1 } version_labels { key: \"canary\" value: 2 }");
  disk_.AddVersion("cats", 1);
  disk_.AddVersion("cats", 2);
  OpenExplicit();
  EXPECT_EQ(VersionOf("stable"), "1");
  EXPECT_EQ(VersionOf("canary"), "2");
  EXPECT_EQ(VersionOf(""), "2");
  EXPECT_EQ(Acquire("cats", "stable"), Acquire("cats", "1"));
  // Metadata names them; what is counted goes by the number, which the view carries.
  EXPECT_EQ((*repository_->Find("cats", ""))->properties.at("fovea.version_labels"),
            "canary=2; stable=1");
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready labels: stable", "cats/2 ready labels: canary"));
}

TEST_F(VersionLabelsTest, TheIndexHasEveryLabelOfAVersionAndNoneWhereThereIsNone) {
  disk_.AddVersion("cats", 1);
  disk_.AddVersion("cats", 2);
  Describe("version_labels { key: \"stable\" value: 1 } version_labels { key: \"old\" value: 1 }");
  OpenExplicit();
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready labels: old, stable", "cats/2 ready"));
}

TEST_F(VersionLabelsTest, AnUnknownLabelIsNotFoundAndABadOneInvalid) {
  disk_.AddModel("cats");
  OpenExplicit();
  EXPECT_EQ(CodeOf("cats", "canary"), absl::StatusCode::kNotFound);
  EXPECT_EQ(VersionOf("canary"), "Request for unknown model: 'cats' serves no version canary");
  for (const std::string bad : {"can ary", "-canary", "1canary", "../1", "c\n"}) {
    EXPECT_EQ(CodeOf("cats", bad), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ((*repository_->Find("cats", ""))->properties.count("fovea.version_labels"), 0U);
}

TEST_F(VersionLabelsTest, ALabelOfAVersionThatIsNotServedIsRefusedInWords) {
  disk_.AddVersion("cats", 1);
  Describe("version_labels { key: \"stable\" value: 7 }");
  OpenExplicit({});
  const absl::Status missing = repository_->Load("cats", "");
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("stable stands for version 7, which is not there"));
  disk_.AddVersion("cats", 8);
  disk_.AddVersion("cats", 9);
  Describe("version_labels { key: \"stable\" value: 1 }");
  EXPECT_THAT(std::string(repository_->Load("cats", "").message()),
              HasSubstr("stable stands for version 1, which the version policy does not serve"));
}

TEST_F(VersionLabelsTest, ALabelMovesOnceItsVersionServes) {
  disk_.AddVersion("cats", 1);
  Describe("version_labels { key: \"stable\" value: 1 }");
  OpenExplicit();
  disk_.Write("cats/2/model.safetensors", "not one");
  Describe("version_labels { key: \"stable\" value: 2 }");
  EXPECT_FALSE(repository_->Load("cats", "").ok());
  EXPECT_EQ(VersionOf("stable"), "1") << "the old version, while the new one does not serve";
  disk_.AddVersion("cats", 2);
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_EQ(VersionOf("stable"), "2");
}

TEST_F(VersionLabelsTest, ALabelOfAVersionThatFailedSaysWhy) {
  disk_.AddVersion("cats", 1);
  disk_.Write("cats/2/model.safetensors", "not one");
  Describe("version_labels { key: \"canary\" value: 2 }");
  OpenExplicit();
  EXPECT_EQ(VersionOf("1"), "1");
  EXPECT_EQ(CodeOf("cats", "canary"), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      VersionOf("canary"),
      HasSubstr("the label canary stands for version 2, which does not serve: unsupported"));
}

TEST_F(VersionLabelsTest, ALabelThatIsTakenAwayIsForgotten) {
  disk_.AddVersion("cats", 1);
  Describe("version_labels { key: \"stable\" value: 1 }");
  OpenExplicit();
  Describe("");
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_EQ(CodeOf("cats", "stable"), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace fovea
