// Weights that come with a load's call instead of lying in the repository: row 75 of
// docs/faults.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "tests/server/repository/repository_fixture.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kReady[] = " ready its weights came with a call, and are not in the repository";

// Safetensors that differ from those of the disk.
std::string Sent(int marks) { return EmptySafetensors() + std::string(marks, ' '); }

class SentFilesTest : public RepositoryFixture {
 protected:
  SentFilesTest() {
    disk_.AddModel("cats");
    disk_.Write("cats/labels.txt", "");
  }
  absl::Status Load(std::vector<SentFile> files) {
    return repository_->LoadFiles("cats", "{}", std::move(files), [this] {
      ++written_;
      loads_before_ = observer_.Loads().size();
    });
  }
  std::string ReasonOfName(const std::string& name) {
    return ReasonOf(Load({{.name = name, .bytes = Sent(1)}}));
  }

  int written_ = 0;  // loads that told that their files were written down
  size_t loads_before_ = 0;
};

TEST_F(SentFilesTest, AreWrittenDownBeforeTheLoad) {
  OpenExplicit();
  const size_t loads = observer_.Loads().size();
  ASSERT_TRUE(Load({{"2/model.safetensors", Sent(1)}, {"7/model.safetensors", Sent(2)}}).ok());
  EXPECT_EQ(written_, 1);
  EXPECT_EQ(loads_before_, loads);
  EXPECT_GT(observer_.Loads().size(), loads);
  EXPECT_EQ(ReasonOfName("1/model.pt"), "repository.file_name");
  EXPECT_EQ(written_, 1);
}

TEST_F(SentFilesTest, ServeInPlaceOfTheFoldersVersions) {
  OpenExplicit();
  EXPECT_EQ(Acquire("cats")->weights(), EmptySafetensors());
  ASSERT_TRUE(Load({{"2/model.safetensors", Sent(1)}, {"7/model.safetensors", Sent(2)}}).ok());
  EXPECT_EQ(Acquire("cats")->weights(), Sent(2));
  EXPECT_EQ(Acquire("cats", "2"), nullptr);  // the policy of the folder: the latest
  EXPECT_EQ(CodeOf("cats", "1"), absl::StatusCode::kNotFound);
  observer_.AwaitUnloads(1);
  EXPECT_THAT(Index(), ElementsAre(std::string("cats/7") + kReady));
  // No name of them is left on any disk.
  EXPECT_FALSE(std::filesystem::exists(disk_ / "cats/7"));
}

TEST_F(SentFilesTest, LastUntilTheModelIsLoadedAgainOrUnloaded) {
  OpenExplicit();
  ASSERT_TRUE(Load({{"1/model.safetensors", Sent(1)}}).ok());
  ASSERT_TRUE(Load({{"1/model.safetensors", Sent(3)}}).ok());
  EXPECT_EQ(Acquire("cats")->weights(), Sent(3));
  ASSERT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_EQ(Acquire("cats")->weights(), EmptySafetensors());
  ASSERT_TRUE(Load({{"1/model.safetensors", Sent(1)}}).ok());
  ASSERT_TRUE(repository_->Unload("cats").ok());
  EXPECT_EQ(CodeOf("cats"), absl::StatusCode::kNotFound);
  ASSERT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_EQ(Acquire("cats")->weights(), EmptySafetensors());
}

// A model that would take another's weights has its own for that while, and what changes there
// changes nothing here.
TEST_F(SentFilesTest, StayWhenAnotherModelIsLoaded) {
  disk_.Write("kin/model.textproto", kPlainSpec + std::string("weights_of: \"cats\"\n"));
  OpenExplicit();
  ASSERT_TRUE(repository_->LoadFiles("kin", "{}", {{"1/model.safetensors", Sent(1)}}, [] {}).ok());
  disk_.Write("cats/1/model.safetensors", EmptySafetensors());
  ASSERT_TRUE(repository_->Load("cats", "").ok());
  ASSERT_TRUE(repository_->Load("cats", "").ok());  // behind what that one may have begun
  EXPECT_EQ(Acquire("kin")->weights(), Sent(1));
}

TEST_F(SentFilesTest, OnlyTheWeightsOfAVersionAreTaken) {
  OpenExplicit();
  for (const char* name :
       {"", "model.safetensors", "/1/model.safetensors", "1/../1/model.safetensors",
        "01/model.safetensors", "0/model.safetensors", "-1/model.safetensors",
        "1/model.safetensors/", "1//model.safetensors", "1/Model.safetensors", "1/model.pt",
        "99999999999999999999/model.safetensors", "labels.txt", "model.textproto"}) {
    EXPECT_EQ(ReasonOfName(name), "repository.file_name") << name;
  }
  EXPECT_EQ(ReasonOf(Load({{"1/model.safetensors", Sent(1)}, {"1/model.safetensors", Sent(2)}})),
            "repository.file_name");
  std::vector<SentFile> many;
  for (size_t i = 1; i <= limits::kMaxSentFiles + 1; ++i) {
    many.push_back({std::to_string(i) + "/model.safetensors", Sent(1)});
  }
  EXPECT_EQ(ReasonOf(Load(std::move(many))), "repository.file_name");
  const absl::Status pickle = Load({{"1/model.safetensors", "PK\x03\x04 and more"}});
  EXPECT_EQ(ReasonOf(pickle), "weights.unsupported_format");
  EXPECT_EQ(Acquire("cats")->weights(), EmptySafetensors());
  EXPECT_EQ(observer_.Loads().back().serving, true);
}

TEST_F(SentFilesTest, AreForModelsOfTheRepositoryThatHaveWeights) {
  disk_.Write("dice/model.textproto", kPlainSpec + std::string("random_weights { seed: 1 }\n"));
  OpenExplicit();
  const auto load = [&](const char* name) {
    return repository_->LoadFiles(name, "{}", {{"1/model.safetensors", Sent(1)}}, [] {});
  };
  EXPECT_EQ(ReasonOf(load("dice")), "weights.random");
  EXPECT_EQ(ReasonOf(load("nobody")), "model.not_found");
  EXPECT_EQ(ReasonOf(load("../cats")), "model.bad_name");
}

TEST_F(SentFilesTest, AreRefusedWhereCallersDoNotSayWhatServes) {
  Open({.control = ModelControl::kPoll});
  EXPECT_EQ(ReasonOf(Load({{"1/model.safetensors", Sent(1)}})), "repository.control_mode");
  EXPECT_EQ(Acquire("cats")->weights(), EmptySafetensors());
}

}  // namespace
}  // namespace fovea
