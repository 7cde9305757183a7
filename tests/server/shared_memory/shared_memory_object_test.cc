#include "server/shared_memory/shared_memory_object.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status.h"

namespace fovea {
namespace {

// An object as a client makes one, that is gone after the test.
class ClientObject {
 public:
  explicit ClientObject(const std::string& what, off_t size)
      : key_(absl::StrCat("/test_", getpid(), "_", what)),
        file_(shm_open(key_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600)) {
    EXPECT_GE(file_.get(), 0);
    Resize(size);
  }
  ~ClientObject() { shm_unlink(key_.c_str()); }

  const std::string& key() const { return key_; }
  void Resize(off_t size) { EXPECT_EQ(ftruncate(file_.get(), size), 0); }
  void Write(const std::string& bytes) {
    EXPECT_EQ(pwrite(file_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string Read(size_t size) const {
    std::string bytes(size, '\0');
    bytes.resize(std::max<ssize_t>(pread(file_.get(), bytes.data(), size, 0), 0));
    return bytes;
  }
  off_t size() const {
    struct stat facts;
    EXPECT_EQ(fstat(file_.get(), &facts), 0);
    return facts.st_size;
  }

 private:
  const std::string key_;
  const FileDescriptor file_;
};

TEST(PosixSharedMemory, IsReadAndWrittenAsItsOwnerSeesIt) {
  ClientObject client("rw", 10);
  client.Write("0123456789");
  const auto object = OpenPosixSharedMemory(client.key());
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(*(*object)->SizeBytes(), 10u);
  std::array<std::byte, 4> bytes;
  ASSERT_TRUE((*object)->Read(3, bytes).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 4), "3456");
  ASSERT_TRUE((*object)->Write(8, "xy").ok());
  EXPECT_EQ(client.Read(10), "01234567xy");
}

// docs/faults.md, row 52.
TEST(PosixSharedMemory, Row52RegionsLeaveFilesForTheRest) {
  constexpr rlim_t kFiles = 80;  // of which half are left
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  ClientObject client("many", 10);
  const rlimit few{.rlim_cur = kFiles, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<std::unique_ptr<SharedMemoryObject>> regions;
  absl::Status refused;
  while (refused.ok() && regions.size() < kFiles) {
    auto region = OpenPosixSharedMemory(client.key());
    refused = region.status();
    if (region.ok()) regions.push_back(*std::move(region));
  }
  std::vector<FileDescriptor> left;
  while (left.size() < kFiles / 2) {
    FileDescriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) break;
    left.push_back(std::move(file));
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(ReasonOf(refused), "shared_memory.no_files");
  EXPECT_GT(regions.size(), 10u);
  EXPECT_EQ(left.size(), kFiles / 2);
}

TEST(PosixSharedMemory, Row52AnObjectThatWasShortenedIsAnErrorAndIsNotMadeLonger) {
  ClientObject client("short", 1 << 20);
  const auto object = *OpenPosixSharedMemory(client.key());
  client.Resize(100);
  std::vector<std::byte> bytes(1 << 20);
  EXPECT_EQ(ReasonOf(object->Read(0, bytes)), "shared_memory.object_too_small");
  EXPECT_EQ(ReasonOf(object->Read(200, {bytes.data(), 1})), "shared_memory.object_too_small");
  EXPECT_EQ(ReasonOf(object->Write(99, "ab")), "shared_memory.object_too_small");
  EXPECT_EQ(ReasonOf(object->Write(200, "ab")), "shared_memory.object_too_small");
  EXPECT_EQ(client.size(), 100);
}

TEST(PosixSharedMemory, Row52AnObjectThatIsShortenedAllTheTimeEndsNothing) {
  constexpr size_t kSize = 1 << 20;
  ClientObject client("shorten", kSize);
  const auto object = *OpenPosixSharedMemory(client.key());
  std::atomic<bool> done = false;
  std::thread owner([&] {
    while (!done) {
      client.Resize(0);
      client.Resize(kSize);
    }
  });
  std::vector<std::byte> bytes(kSize);
  const std::string text(kSize, 'x');
  for (int i = 0; i < 100; ++i) {
    object->Read(0, bytes).IgnoreError();
    object->Write(0, text).IgnoreError();
  }
  done = true;
  owner.join();
}

TEST(PosixSharedMemory, Row52WhatIsNoObjectOfOursIsNotOpened) {
  EXPECT_EQ(ReasonOf(OpenPosixSharedMemory("/test_nothing_here").status()), "shared_memory.key");
  // A link to a file that may be read.
  const std::string link = absl::StrCat("/dev/shm/test_", getpid(), "_link");
  ASSERT_EQ(symlink("/etc/hostname", link.c_str()), 0);
  EXPECT_EQ(ReasonOf(OpenPosixSharedMemory(link.substr(8)).status()), "shared_memory.key");
  unlink(link.c_str());
  // A pipe opens, and is no memory.
  const std::string pipe = absl::StrCat("/dev/shm/test_", getpid(), "_pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto object = OpenPosixSharedMemory(pipe.substr(8));
  unlink(pipe.c_str());
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(ReasonOf((*object)->SizeBytes().status()), "shared_memory.key");
}

}  // namespace
}  // namespace fovea
