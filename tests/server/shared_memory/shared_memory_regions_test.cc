#include "server/shared_memory/shared_memory_regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/testing/notification.h"
#include "tests/server/shared_memory/fake_shared_memory.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

class SharedMemoryRegionsTest : public ::testing::Test {
 protected:
  SharedMemoryRegionsTest() { memory_.Create("/object", "0123456789"); }

  std::string RegisterReason(SharedMemoryRegionInfo region) {
    return ReasonOf(regions_.Register(std::move(region)));
  }
  std::string FindReason(const SharedMemorySpan& span) {
    return ReasonOf(regions_.Find(span).status());
  }

  FakeSharedMemory memory_;
  SharedMemoryRegions regions_{memory_.Opener(), {.max_regions = 3}};
};

TEST_F(SharedMemoryRegionsTest, ReadsAndWritesInsideOfARegion) {
  ASSERT_TRUE(regions_.Register({"r", "/object", 2, 6}).ok());
  const auto place = regions_.Find({.region = "r", .offset = 1, .byte_size = 3});
  ASSERT_TRUE(place.ok());
  std::array<std::byte, 3> bytes;
  ASSERT_TRUE(place->Read(bytes).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 3), "345");
  ASSERT_TRUE(place->Write(1, "ab").ok());
  EXPECT_EQ(memory_.Bytes("/object"), "0123ab6789");
}

TEST_F(SharedMemoryRegionsTest, TellsWhatIsRegistered) {
  const SharedMemoryRegionInfo a{"a", "/object", 0, 10}, b{"b", "/object", 9, 1};
  ASSERT_TRUE(regions_.Register(b).ok());
  ASSERT_TRUE(regions_.Register(a).ok());
  EXPECT_THAT(*regions_.Status(""), ElementsAre(a, b));
  EXPECT_THAT(*regions_.Status("b"), ElementsAre(b));
  EXPECT_TRUE(absl::IsNotFound(regions_.Status("c").status()));
  regions_.Unregister("a");
  regions_.Unregister("c");  // is none
  EXPECT_THAT(*regions_.Status(""), ElementsAre(b));
  regions_.Unregister("");
  EXPECT_THAT(*regions_.Status(""), IsEmpty());
}

TEST_F(SharedMemoryRegionsTest, Row52KeysThatAreNoCallersAreNotOpened) {
  for (const std::string key :
       {"", "/", "//", "/.", "/..", "..", "/.hidden", "/a/b", "/../etc/passwd", "//object", "/a b",
        "/a\nb", "/a\\b", "/sem.x", "sem.x", "/torch_1_2", "/__KMP_REGISTERED_LIB_1",
        "/triton_python_backend_shm_region_1", "/fovea_x"}) {
    EXPECT_EQ(RegisterReason({"r", key, 0, 1}), "shared_memory.key") << key;
  }
  EXPECT_EQ(RegisterReason({"r", std::string("/a\0b", 4), 0, 1}), "shared_memory.key");
  EXPECT_EQ(RegisterReason({"r", "/" + std::string(255, 'a'), 0, 1}), "shared_memory.key");
  EXPECT_EQ(memory_.opened(), 0);
  EXPECT_EQ(RegisterReason({"r", "/nothing", 0, 1}), "shared_memory.key");
}

TEST_F(SharedMemoryRegionsTest, Row52ARegionLiesInsideItsObject) {
  for (const auto& [offset, size] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 0},
                                                  {10, 0},
                                                  {0, 11},
                                                  {1, 10},
                                                  {11, 1},
                                                  {0, kMost},
                                                  {kMost, 1},
                                                  {kMost - 4, 8},
                                                  {8, kMost - 4},
                                                  {uint64_t{1} << 63, uint64_t{1} << 63}}) {
    EXPECT_EQ(RegisterReason({"r", "/object", offset, size}), "shared_memory.range")
        << offset << " " << size;
  }
  EXPECT_EQ(RegisterReason({"r", "/object", 9, 1}), "");
}

TEST_F(SharedMemoryRegionsTest, Row52ATensorLiesInsideItsRegion) {
  ASSERT_TRUE(regions_.Register({"r", "/object", 2, 6}).ok());
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  for (const auto& [offset, size] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {0, -1}, {-1, 1}, {0, 7}, {6, 1}, {5, 2}, {kLargest, kLargest}, {1, kLargest}}) {
    EXPECT_EQ(FindReason({"r", offset, size}), "shared_memory.range") << offset << " " << size;
  }
  EXPECT_EQ(FindReason({"r", 5, 1}), "");
  EXPECT_EQ(FindReason({"", 0, 1}), "shared_memory.not_registered");
  EXPECT_EQ(FindReason({"s", 0, 1}), "shared_memory.not_registered");
}

TEST_F(SharedMemoryRegionsTest, Row52NamesAreBoundedAndTakenOnce) {
  EXPECT_EQ(RegisterReason({"", "/object", 0, 1}), "shared_memory.name");
  EXPECT_EQ(RegisterReason({std::string(255, 'a'), "/object", 0, 1}), "shared_memory.name");
  ASSERT_TRUE(regions_.Register({"r", "/object", 0, 1}).ok());
  const absl::Status twice = regions_.Register({"r", "/object", 1, 1});
  EXPECT_TRUE(absl::IsAlreadyExists(twice));
  EXPECT_EQ(ReasonOf(twice), "shared_memory.name_taken");
  EXPECT_EQ(memory_.opened(), 1);
  regions_.Unregister("r");
  EXPECT_TRUE(regions_.Register({"r", "/object", 1, 1}).ok());
}

TEST_F(SharedMemoryRegionsTest, Row52RegionsAreBounded) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(regions_.Register({name, "/object", 0, 1}).ok());
  }
  const absl::Status fourth = regions_.Register({"d", "/object", 0, 1});
  EXPECT_TRUE(absl::IsResourceExhausted(fourth));
  EXPECT_EQ(ReasonOf(fourth), "shared_memory.too_many");
  regions_.Unregister("b");
  EXPECT_TRUE(regions_.Register({"d", "/object", 0, 1}).ok());
}

TEST_F(SharedMemoryRegionsTest, Row52NothingIsWrittenAfterUnregister) {
  ASSERT_TRUE(regions_.Register({"r", "/object", 0, 10}).ok());
  const auto place = *regions_.Find({.region = "r", .offset = 0, .byte_size = 10});
  Notification writing, go_on;
  std::atomic<bool> written = false;
  memory_.OnWrite([&] {
    writing.Notify();
    go_on.Wait();
  });
  std::thread writer([&] {
    EXPECT_TRUE(place.Write(0, "abc").ok());
    written = true;
  });
  writing.Wait();
  std::thread unregister([&] {
    regions_.Unregister("r");
    EXPECT_EQ(memory_.Bytes("/object"), "abc3456789");  // it has waited for the write
  });
  go_on.Notify();
  unregister.join();
  writer.join();
  EXPECT_TRUE(written);
  EXPECT_EQ(ReasonOf(place.Write(0, "xyz")), "shared_memory.unregistered");
  std::array<std::byte, 1> byte;
  EXPECT_EQ(ReasonOf(place.Read(byte)), "shared_memory.unregistered");
  EXPECT_EQ(memory_.Bytes("/object"), "abc3456789");
}

TEST_F(SharedMemoryRegionsTest, ThreadsRegisterUseAndUnregisterAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const std::string name = absl::StrCat("r", i % 2);
      for (int round = 0; round < 200; ++round) {
        regions_.Register({name, "/object", 0, 10}).IgnoreError();
        const auto place = regions_.Find({.region = name, .offset = 1, .byte_size = 4});
        if (place.ok()) {
          std::array<std::byte, 4> bytes;
          place->Read(bytes).IgnoreError();
          place->Write(0, "abcd").IgnoreError();
        }
        regions_.Unregister(name);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(*regions_.Status(""), IsEmpty());
}

}  // namespace
}  // namespace fovea
