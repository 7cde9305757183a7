#include "client/cpp/cli/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace fovea::client {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "fovea-files-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& contents = "x") {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }

  std::vector<std::string> Expanded(const std::string& pattern) {
    std::vector<std::string> names;
    for (const NamedFile& file : ExpandFiles({folder_ / pattern})) {
      EXPECT_TRUE(file.status.ok()) << file.path;
      names.push_back(std::filesystem::path(file.path).filename());
    }
    return names;
  }

  std::filesystem::path folder_;
};

TEST_F(Files, APatternBecomesItsFilesInAlphabeticalOrder) {
  for (const char* name : {"b.jpg", "a.jpg", "c.png"}) Write(name);
  EXPECT_THAT(Expanded("*.jpg"), ElementsAre("a.jpg", "b.jpg"));
  EXPECT_THAT(Expanded("[bc].*"), ElementsAre("b.jpg", "c.png"));
}

TEST_F(Files, AnExistingNameIsNoPattern) {
  Write("a[1].jpg");
  Write("a1.jpg");
  EXPECT_THAT(Expanded("a[1].jpg"), ElementsAre("a[1].jpg"));
}

TEST_F(Files, APatternWithoutFilesFailsAlone) {
  Write("a.jpg");
  const auto files = ExpandFiles({folder_ / "*.gif", folder_ / "*.jpg"});
  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(absl::IsNotFound(files[0].status));
  EXPECT_THAT(files[0].path, EndsWith("*.gif"));
  EXPECT_TRUE(files[1].status.ok());
}

TEST_F(Files, AreReadByteForByte) {
  const std::string contents("\0\r\n\xFF", 4);
  EXPECT_EQ(ReadFile(Write("a", contents)).value(), contents);
}

TEST_F(Files, ThatCannotBeReadSayWhy) {
  const absl::Status missing = ReadFile(folder_ / "missing.jpg").status();
  EXPECT_THAT(std::string(missing.message()), HasSubstr("cannot be read: No such file"));
  const absl::Status folder = ReadFile(folder_).status();
  EXPECT_THAT(std::string(folder.message()), HasSubstr("it is a folder"));
}

TEST_F(Files, WithoutAnEndAreGivenUp) {
  const absl::Status endless = ReadFile("/dev/zero").status();
  EXPECT_THAT(std::string(endless.message()), HasSubstr("larger than 64 MiB"));
}

TEST_F(Files, MayBePipes) {
  const std::string path = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream(path) << "through the pipe"; });
  EXPECT_EQ(ReadFile(path).value(), "through the pipe");
}

}  // namespace
}  // namespace fovea::client
