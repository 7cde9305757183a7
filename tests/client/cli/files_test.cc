#include "client/cpp/cli/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
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
    FilesLeftOut left_out;
    for (const NamedFile& file : ExpandFiles({folder_ / pattern}, &left_out)) {
      EXPECT_TRUE(file.status.ok()) << file.path;
      names.push_back(std::filesystem::path(file.path).filename());
    }
    left_out_ = left_out.Line();
    return names;
  }

  std::filesystem::path folder_;
  std::string left_out_;  // of the last Expanded
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
  FilesLeftOut left_out;
  const auto files = ExpandFiles({folder_ / "*.gif", folder_ / "*.jpg"}, &left_out);
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
                           "top/b/more.txt", "top/e.heic", "top/.hidden/x.jpg", "top/._a.jpg"}) {
    Write(name);
  }
  std::filesystem::create_directory_symlink("..", folder_ / "top/b/up");
  EXPECT_THAT(Expanded("top"), ElementsAre("a.jpeg", "z.webp", "c.PNG"));
  EXPECT_EQ(left_out_, "3 files left out: .txt 2, .heic 1");
  EXPECT_THAT(Expanded("t?p"), ElementsAre("a.jpeg", "z.webp", "c.PNG"));
  std::filesystem::create_directory(folder_ / "empty");
  FilesLeftOut left_out;
  const auto none = ExpandFiles({folder_ / "empty"}, &left_out);
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].status.message(), "no picture is in this folder");
}

TEST_F(Files, Row114OfAFolderAreKnownByTheirContentsWhateverTheyAreCalled) {
  std::filesystem::create_directories(folder_ / "top");
  for (const char* name :
       {"a.jfif", "b.JPE", "c.bmp", "d.gif", "e.tif", "f.tiff", "g.avif", "n.svg"}) {
    Write(std::string("top/") + name);
  }
  Write("top/h", "\xff\xd8\xff\xe0");
  Write("top/i.dat", "\x89PNG\r\n\x1a\n");
  Write("top/j.tmp", "RIFF1234WEBPVP8 ");
  Write("top/o", "no picture");
  ASSERT_EQ(::mkfifo((folder_ / "top/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Expanded("top"), ElementsAre("a.jfif", "b.JPE", "c.bmp", "d.gif", "e.tif", "f.tiff",
                                           "g.avif", "h", "i.dat", "j.tmp"));
  EXPECT_EQ(left_out_, "3 files left out: without an extension 2, .svg 1");
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

// As on a full disk.
TEST(WriteFileTest, LeavesNoHalfFileBehind) {
  const std::string path = ::testing::TempDir() + "/half";
  const auto write = [&path] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 100, .rlim_max = 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const absl::Status status = WriteFile(path, std::string(1000, 'x'));
    std::exit(!status.ok() && !std::filesystem::exists(path) ? 0 : 1);
  };
  EXPECT_EXIT(write(), ::testing::ExitedWithCode(0), "");
}

// Even root, who may write read-only files, may not write the file of a running program.
TEST_F(Files, AFileThatMayNotBeWrittenStays) {
  const std::string path = folder_ / "sleep";
  std::filesystem::copy_file("/bin/sleep", path);
  std::string seconds = "60";
  char* const arguments[] = {const_cast<char*>(path.c_str()), seconds.data(), nullptr};
  pid_t process = 0;
  ASSERT_EQ(posix_spawn(&process, path.c_str(), nullptr, nullptr, arguments, environ), 0);
  EXPECT_THAT(WriteFile(path, "x").message(), HasSubstr("cannot be written: Text file busy"));
  EXPECT_TRUE(std::filesystem::exists(path));
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

}  // namespace
}  // namespace fovea::client
