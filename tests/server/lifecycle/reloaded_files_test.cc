#include "server/lifecycle/reloaded_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/testing/fake_clock.h"

namespace fovea {
namespace {

using testing::ElementsAre;

class ReloadedFilesTest : public ::testing::Test {
 protected:
  ReloadedFilesTest()
      : files_(
            clock_, kSecond, [this](const std::string& path) { return Read(path); },
            [this](std::string_view, bool taken) {
              MutexLock lock(mutex_);
              counted_.push_back(taken);
            }) {}

  absl::StatusOr<std::string> Read(const std::string& path) {
    MutexLock lock(mutex_);
    const auto found = texts_.find(path);
    if (found == texts_.end()) return InvalidArgument("server.file", path + ": not there");
    return found->second;
  }
  void Write(const std::string& path, const std::string& text) {
    MutexLock lock(mutex_);
    texts_[path] = text;
  }
  absl::Status Add() {
    return files_.Add({.what = "pair",
                       .label = "pair",
                       .paths = {"a", "b"},
                       .take = [this](const std::vector<std::string>& texts) -> absl::Status {
                         if (texts[0] != texts[1]) return InvalidArgument("pair", "do not match");
                         MutexLock lock(mutex_);
                         taken_.push_back(texts[0]);
                         return absl::OkStatus();
                       }});
  }
  // Lets so many looks pass, each to its end.
  void Look(int times) {
    for (int i = 0; i < times; ++i) {
      clock_.AwaitWaiters(1);
      clock_.Advance(kSecond);
    }
    clock_.AwaitWaiters(1);
  }
  std::vector<std::string> taken() {
    MutexLock lock(mutex_);
    return taken_;
  }
  std::vector<bool> counted() {
    MutexLock lock(mutex_);
    return counted_;
  }

  FakeClock clock_;
  Mutex mutex_;
  std::map<std::string, std::string> texts_ ABSL_GUARDED_BY(mutex_) = {{"a", "1"}, {"b", "1"}};
  std::vector<std::string> taken_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> counted_ ABSL_GUARDED_BY(mutex_);
  ReloadedFiles files_;
};

TEST_F(ReloadedFilesTest, WhatCannotBeUsedAtTheStartIsAnErrorThatNamesIt) {
  Write("b", "2");
  EXPECT_EQ(Add().message(), "pair: do not match");
}

TEST_F(ReloadedFilesTest, AFileThatIsNotThereAtTheStartIsAnError) {
  {
    MutexLock lock(mutex_);
    texts_.erase("b");
  }
  EXPECT_EQ(Add().message(), "b: not there");
}

TEST_F(ReloadedFilesTest, AChangeIsTakenOnceTwoLooksFoundIt) {
  ASSERT_TRUE(Add().ok());
  ASSERT_TRUE(files_.Start().ok());
  Look(3);
  EXPECT_THAT(taken(), ElementsAre("1"));
  Write("a", "2");
  Look(1);
  Write("b", "2");  // between the two a look found files that do not belong together
  Look(1);
  EXPECT_THAT(taken(), ElementsAre("1"));
  Look(1);
  EXPECT_THAT(taken(), ElementsAre("1", "2"));
  EXPECT_THAT(counted(), ElementsAre(true));
}

TEST_F(ReloadedFilesTest, WhatCannotBeUsedIsRefusedOnceAndWhatComesNextIsTaken) {
  ASSERT_TRUE(Add().ok());
  ASSERT_TRUE(files_.Start().ok());
  Write("a", "2");
  Look(5);
  EXPECT_THAT(taken(), ElementsAre("1"));
  EXPECT_THAT(counted(), ElementsAre(false));
  {
    MutexLock lock(mutex_);
    texts_.erase("b");
  }
  Look(3);
  EXPECT_THAT(counted(), ElementsAre(false, false));
  Write("b", "2");
  Look(2);
  EXPECT_THAT(taken(), ElementsAre("1", "2"));
}

TEST(ReadOperatorFileTest, GivesTheWholeFileOrSaysWhyNot) {
  const std::string path = testing::TempDir() + "/operator_file";
  const std::string text(10'000, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(ReadOperatorFile(path).value(), text);
  EXPECT_EQ(ReadOperatorFile(path + "_none").status().message(),
            path + "_none: No such file or directory");
  EXPECT_EQ(ReadOperatorFile(testing::TempDir()).status().message(),
            testing::TempDir() + ": Is a directory");
  std::ofstream(path) << std::string(limits::kMaxSecretFileBytes + 1, 'x');
  EXPECT_EQ(ReadOperatorFile(path).status().message(), path + ": it is too long");
}

}  // namespace
}  // namespace fovea
