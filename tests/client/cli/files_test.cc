#include "client/cpp/cli/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

TEST_F(Files, OfAFolderAreTheImagesInItAndBelow) {
  std::filesystem::create_directories(folder_ / "top/b");
  std::filesystem::create_directories(folder_ / "top/.hidden");
  for (const char* name : {"top/c.PNG", "top/a.jpeg", "top/b/z.webp", "top/notes.txt",
                           "top/.hidden/x.jpg", "top/._a.jpg"}) {
    Write(name);
  }
  std::filesystem::create_directory_symlink("..", folder_ / "top/b/up");
  EXPECT_THAT(Expanded("top"), ElementsAre("a.jpeg", "z.webp", "c.PNG"));
  EXPECT_THAT(Expanded("t?p"), ElementsAre("a.jpeg", "z.webp", "c.PNG"));
  std::filesystem::create_directory(folder_ / "empty");
  const auto none = ExpandFiles({folder_ / "empty"});
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].status.message(), "no JPEG, PNG or WebP file is in this folder");
}

TEST_F(Files, OfAListFollowThoseOfTheArguments) {
  auto files = FileList::Open({Write("a.jpg")}, Write("list", "b*.jpg\n\nc d.jpg"), -1);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->size(), std::nullopt);  // not before its end
  EXPECT_THAT(files->Next()->path, EndsWith("a.jpg"));
  EXPECT_EQ(files->Next()->path, "b*.jpg");
  EXPECT_EQ(files->Next()->path, "c d.jpg");
  EXPECT_FALSE(files->Next().has_value());
  EXPECT_EQ(files->size(), 3u);
}

TEST_F(Files, ThatNeverComeAreNotWaitedForAfterAStop) {
  int quiet[2], stop[2];
  ASSERT_EQ(::pipe(quiet), 0);
  ASSERT_EQ(::pipe(stop), 0);
  std::jthread stopper([&] { ::close(stop[1]); });
  const absl::Status stopped =
      ReadFile("/proc/self/fd/" + std::to_string(quiet[0]), stop[0]).status();
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
  for (int end : {quiet[0], quiet[1], stop[0]}) ::close(end);
}

TEST_F(Files, MayBePipes) {
  const std::string path = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream(path) << "through the pipe"; });
  EXPECT_EQ(ReadFile(path).value(), "through the pipe");
}

}  // namespace
}  // namespace fovea::client
