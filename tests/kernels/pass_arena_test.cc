// That passes are answered from an arena's memory, and that nothing they hold is written over.
#include "kernels/memory/pass_arena.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/memory/cpu_allocator.h"
#include "kernels/memory/memory_ledger.h"
#include "kernels/memory/pass_memory.h"
#include "kernels/memory/pass_plan.h"
#include "tests/kernels/counting_allocator.h"
#include "tests/resident_bytes.h"

namespace fovea::kernels {
namespace {

// The numbers of a block that its owner expects to find again.
at::Tensor Filled(int64_t numbers, float value) {
  at::Tensor tensor = at::empty({numbers}, at::kFloat);
  tensor.fill_(value);
  return tensor;
}
bool Holds(const at::Tensor& tensor, float value) {
  const float* numbers = tensor.const_data_ptr<float>();
  return std::all_of(numbers, numbers + tensor.numel(), [&](float n) { return n == value; });
}

// A chain of layers that holds a residual, hidden maps and a small vector at a time, and returns
// what depends on all of them. `widest`: of a hidden map.
at::Tensor Layers(const at::Tensor& input, int64_t widest = 4096) {
  at::Tensor tokens = input.clone();
  for (int layer = 0; layer < 4; ++layer) {
    at::Tensor small = Filled(7 + layer, static_cast<float>(layer + 1));
    at::Tensor hidden = Filled(widest, 1.0F);
    hidden.mul_(small[0]).add_(tokens.sum());
    const at::Tensor product = hidden.narrow(0, 0, tokens.numel()).clone();
    hidden.reset();
    tokens = tokens.add(product).mul(0.5);
  }
  return tokens;
}

class PassArenaTest : public ::testing::Test {
 protected:
  PassArenaTest() { at::set_num_threads(1); }  // thousands of tiny operators
  ~PassArenaTest() override { at::set_num_threads(threads_); }

  // A whole pass; its results.
  at::Tensor Pass(PassArena& arena, const at::Tensor& input,
                  const std::function<at::Tensor()>& layers) {
    PassArena::Scope pass(arena, input);
    at::Tensor result = layers();
    pass.Complete();
    return result;
  }
  at::Tensor Pass(PassArena& arena, const at::Tensor& input) {
    return Pass(arena, input, [&] { return Layers(input); });
  }
  // Of a pass: what lies outside of the arena's memory.
  std::vector<CountingAllocator::Allocation> Ordinary(PassArena& arena, const at::Tensor& input,
                                                      const std::function<at::Tensor()>& layers) {
    const CountingAllocator counting;
    const at::Tensor result = Pass(arena, input, layers);
    return counting.Outside(arena.memory());
  }

  const int threads_ = at::get_num_threads();
  const at::Tensor input_ = Filled(1000, 0.25F);
};

TEST(PassPlanTest, BlocksThatLiveTogetherDoNotOverlap) {
  std::mt19937 random(1);
  for (int repetition = 0; repetition < 50; ++repetition) {
    std::vector<BlockLife> blocks;
    std::vector<size_t> live;
    int64_t now = 0;
    for (int i = 0; i < 300; ++i) {
      if (live.size() > random() % 12) {
        std::swap(live[random() % live.size()], live.back());
        blocks[live.back()].end = now++;
        live.pop_back();
      } else {
        live.push_back(blocks.size());
        blocks.push_back(
            {.bytes = 1 + random() % (random() % 4 == 0 ? 1'000'000 : 3'000), .begin = now++});
      }
    }
    const PassPlan plan = PlanPass(blocks);
    ASSERT_EQ(plan.places.size(), blocks.size());
    size_t end = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const PassPlan::Place& a = plan.places[i];
      ASSERT_EQ(a.bytes, blocks[i].bytes);
      ASSERT_EQ(a.offset == PassPlan::Place::kNone, blocks[i].end == BlockLife::kBeyond);
      if (a.offset == PassPlan::Place::kNone) continue;
      ASSERT_EQ(a.offset % kBlockAlignment, 0);
      end = std::max(end, a.offset + PlacedBytes(a.bytes));
      for (size_t j = 0; j < i; ++j) {
        const PassPlan::Place& b = plan.places[j];
        if (b.offset == PassPlan::Place::kNone) continue;
        const bool together = blocks[i].begin < blocks[j].end && blocks[j].begin < blocks[i].end;
        ASSERT_FALSE(together && a.offset < b.offset + PlacedBytes(b.bytes) &&
                     b.offset < a.offset + PlacedBytes(a.bytes))
            << i << " and " << j;
      }
    }
    EXPECT_EQ(plan.bytes, end);
    EXPECT_GE(plan.bytes, plan.peak_bytes);
  }
}

TEST(PassPlanTest, WhatIsFreedMakesPlaceForWhatComes) {
  // A large one, then two halves of it one after the other beside a small one that stays.
  const size_t half = 512 * kBlockAlignment - kBlockHeader, large = 2 * half + kBlockHeader;
  const std::vector<BlockLife> blocks = {
      {large, 0, 1}, {64, 2, 9}, {half, 3, 5}, {half, 4, 6}, {half, 7, 8}};
  const PassPlan plan = PlanPass(blocks);
  EXPECT_EQ(plan.peak_bytes, std::max(large, 64 + 2 * half));
  EXPECT_EQ(plan.bytes, PlacedBytes(large) + PlacedBytes(64));
}

TEST_F(PassArenaTest, AWarmPassAllocatesItsResultsAlone) {
  PassArena arena;
  const auto layers = [&] { return Layers(input_); };
  EXPECT_GT(Ordinary(arena, input_, layers).size(), 20) << "the first is recorded";
  for (int i = 0; i < 5; ++i) {
    const auto ordinary = Ordinary(arena, input_, layers);
    ASSERT_EQ(ordinary.size(), 1);
    EXPECT_EQ(ordinary[0].bytes, input_.nbytes());
  }
  EXPECT_EQ(arena.passes().recorded, 1);
  EXPECT_EQ(arena.passes().as_planned, 5);
  EXPECT_EQ(arena.passes().deviated, 0);
}

TEST_F(PassArenaTest, WhatAPassGivesIsWhatItGivesWithoutAnArena) {
  PassArena arena;
  std::vector<at::Tensor> results, expected;
  for (int i = 0; i < 6; ++i) {
    const at::Tensor input = at::arange(1000, at::kFloat).mul_(0.01 * (i + 1));
    results.push_back(Pass(arena, input, [&] { return Layers(input); }));
    expected.push_back(Layers(input));
  }
  EXPECT_EQ(arena.passes().as_planned, 5);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(results[i], expected[i])) << i;
}

TEST_F(PassArenaTest, EachShapeAndNumberOfThreadsHasAPlan) {
  PassArena arena;
  const at::Tensor larger = Filled(2000, 1.0F);
  for (int i = 0; i < 2; ++i) {
    Pass(arena, input_);
    Pass(arena, larger);
    Pass(arena, input_.to(at::kDouble));
    at::set_num_threads(2);
    Pass(arena, input_);
    at::set_num_threads(1);
  }
  EXPECT_EQ(arena.plans(), 4);
  EXPECT_EQ(arena.passes().recorded, 4);
  EXPECT_EQ(arena.passes().as_planned, 4);
}

TEST_F(PassArenaTest, WhatDeviatesIsAllocatedAsEverAndRecordedAnew) {
  PassArena arena;
  const auto wide = [&] { return Layers(input_, 8192); };
  const at::Tensor expected = Layers(input_, 8192);
  Pass(arena, input_);
  Pass(arena, input_);
  const CountingAllocator counting;
  EXPECT_TRUE(at::equal(Pass(arena, input_, wide), expected));
  EXPECT_GE(counting.Outside(arena.memory()).size(), 4) << "hidden maps do not fit their places";
  EXPECT_EQ(arena.passes().deviated, 1);
  EXPECT_TRUE(at::equal(Pass(arena, input_, wide), expected));
  EXPECT_EQ(arena.passes().recorded, 2);
  EXPECT_TRUE(at::equal(Pass(arena, input_, wide), expected));
  EXPECT_EQ(arena.passes().as_planned, 2);
}

TEST_F(PassArenaTest, LessThanRecordedFitsItsPlaces) {
  PassArena arena;
  Pass(arena, input_);
  const at::Tensor expected = Layers(input_, 2048);
  EXPECT_TRUE(at::equal(Pass(arena, input_, [&] { return Layers(input_, 2048); }), expected));
  EXPECT_EQ(arena.passes().deviated, 0);
}

TEST_F(PassArenaTest, PassesThatNeverRepeatAreHardlyEverRecorded) {
  PassArena arena;
  for (int i = 0; i < 1000; ++i) {
    Pass(arena, input_, [&] { return Layers(input_, 1000 + 50 * i); });
  }
  // After 1, 2, 4, ... 512 that deviated.
  EXPECT_LE(arena.passes().recorded, 11);
  EXPECT_GE(arena.passes().recorded, 5);
}

TEST_F(PassArenaTest, ABlockThatOutlivesItsPassIsNotWrittenOver) {
  PassArena arena;
  at::Tensor kept;
  const auto layers = [&](bool keep) {
    at::Tensor first = Filled(5000, 3.0F);
    if (keep) kept = first;
    first.reset();
    return Layers(input_);
  };
  for (const bool keep : {false, false, true}) {
    Pass(arena, input_, [&] { return layers(keep); });
  }
  ASSERT_TRUE(arena.memory().Holds(kept.const_data_ptr()));
  const at::Tensor expected = Layers(input_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(at::equal(Pass(arena, input_, [&] { return layers(false); }), expected));
    EXPECT_TRUE(Holds(kept, 3.0F));
  }
  EXPECT_GE(arena.passes().deviated, 1);
}

TEST_F(PassArenaTest, BlocksOutliveTheArenaAndItsMemory) {
  std::optional<PassArena> arena(std::in_place);
  at::Tensor kept;
  for (int i = 0; i < 2; ++i) {
    Pass(*arena, input_, [&] {
      at::Tensor first = Filled(1 << 20, 5.0F);
      if (i == 1) kept = first;
      first.reset();
      return Layers(input_);
    });
  }
  ASSERT_TRUE(arena->memory().Holds(kept.const_data_ptr()));
  arena.reset();
  EXPECT_TRUE(Holds(kept, 5.0F));
  kept.fill_(6.0F);
  EXPECT_TRUE(Holds(kept, 6.0F));
}

TEST_F(PassArenaTest, BlocksMayBeFreedOnAnotherThread) {
  PassArena arena;
  const auto layers = [&] {
    at::Tensor handed = Filled(3000, 2.0F);
    std::thread([block = std::move(handed)]() mutable { block.reset(); }).join();
    return Layers(input_);
  };
  const at::Tensor expected = Layers(input_);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(Pass(arena, input_, layers), expected));
  EXPECT_EQ(arena.passes().as_planned, 3);
}

TEST_F(PassArenaTest, WhatWasRecordedMayBeFreedAfterItsArena) {
  at::Tensor result;
  {
    PassArena arena;
    result = Pass(arena, input_);
  }
  EXPECT_TRUE(at::equal(result, Layers(input_)));
}

TEST_F(PassArenaTest, AllocationsOfOtherThreadsAreNotThePasses) {
  PassArena arena;
  const auto layers = [&] {
    std::thread([] { EXPECT_TRUE(Holds(Filled(3000, 2.0F), 2.0F)); }).join();
    return Layers(input_);
  };
  Pass(arena, input_, layers);
  const auto ordinary = Ordinary(arena, input_, layers);
  EXPECT_EQ(ordinary.size(), 2) << "the other thread's, and the result";
  EXPECT_EQ(arena.passes().as_planned, 1);
}

TEST_F(PassArenaTest, NothingIsLearntOfAPassThatThrows) {
  PassArena arena;
  const auto failing = [&]() -> at::Tensor {
    const at::Tensor held = Filled(100'000, 1.0F);
    throw std::runtime_error("in the middle of a pass");
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(Pass(arena, input_, failing), std::runtime_error);
    Pass(arena, input_);
  }
  EXPECT_EQ(arena.passes().recorded, 1);
  EXPECT_EQ(arena.passes().as_planned, 1);
  // The thread is its own again.
  EXPECT_FALSE(arena.memory().Holds(Filled(10, 1.0F).const_data_ptr()));
}

TEST_F(PassArenaTest, APassWithinAnothersTakesItsPlace) {
  PassArena outer, inner;
  const auto layers = [&] {
    const at::Tensor within = Pass(inner, input_);
    EXPECT_TRUE(at::equal(within, Layers(input_)));
    return Layers(input_);
  };
  for (int i = 0; i < 3; ++i) Pass(outer, input_, layers);
  EXPECT_EQ(outer.passes().as_planned, 2);
  EXPECT_EQ(inner.passes().as_planned, 2);
}

TEST_F(PassArenaTest, OnePassOfAnArenaAtATime) {
  PassArena arena;
  const PassArena::Scope pass(arena, input_);
  EXPECT_THROW(PassArena::Scope(arena, input_), c10::Error);
}

TEST_F(PassArenaTest, ArenasOfTwoThreadsShareTheirMemory) {
  const auto memory = std::make_shared<PassMemory>();
  constexpr int kPasses = 300;
  std::atomic<int> right = 0;
  const auto run = [&](float value) {
    PassArena arena(memory);
    const at::Tensor input = Filled(1000, value);
    const at::Tensor expected = Layers(input);
    for (int i = 0; i < kPasses; ++i) right += at::equal(Pass(arena, input), expected);
    EXPECT_EQ(arena.passes().as_planned, kPasses - 1);
  };
  std::thread other(run, 0.5F);
  run(0.75F);
  other.join();
  EXPECT_EQ(right, 2 * kPasses);
  PassArena alone;
  for (int i = 0; i < 2; ++i) Pass(alone, input_);
  EXPECT_LE(memory->bytes(), 2 * alone.memory().bytes());
}

TEST_F(PassArenaTest, PassesThatRunAtTheSameTimeHaveRangesOfTheirOwn) {
  PassMemory memory;
  PassMemory::Range first = memory.Reserve(1 << 16);
  const c10::DataPtr block = first.Take(0, 1 << 10);
  {
    const PassMemory::Range second = memory.Reserve(1 << 15);  // in a larger slab
    EXPECT_GE(memory.bytes(), (1 << 16) + (1 << 15));
    EXPECT_TRUE(second.Take(0, 1 << 10));
  }
  first = {};
  const size_t both = memory.bytes();
  const PassMemory::Range a = memory.Reserve(1 << 15), b = memory.Reserve(1 << 16);
  EXPECT_EQ(memory.bytes(), both) << "what two passes had is enough for two";
  const c10::DataPtr in_a = a.Take(0, 1 << 10), in_b = b.Take(0, 1 << 10);
  EXPECT_NE(in_a.get(), in_b.get());
  EXPECT_FALSE(a.Take(512, 64)) << "overlaps what is used";
  EXPECT_FALSE(b.Take(both, 64)) << "beyond the slab";
}

TEST_F(PassArenaTest, GivesItsMemoryBackUnlessAPassRuns) {
  const auto memory = std::make_shared<PassMemory>();
  PassArena arena(memory);
  Pass(arena, input_);
  EXPECT_EQ(memory->bytes(), 0) << "not needed yet";
  Pass(arena, input_, [&] {
    memory->GiveBack();
    EXPECT_GT(memory->bytes(), 0);
    return Layers(input_);
  });
  memory->GiveBack();
  EXPECT_EQ(memory->bytes(), 0);
  EXPECT_TRUE(at::equal(Pass(arena, input_), Layers(input_)));
  EXPECT_EQ(arena.passes().as_planned, 2);
}

// Malloc keeps what is freed below a block that lives on.
TEST_F(PassArenaTest, WhatARecordedPassHadOfMallocIsGivenBack) {
  if (!kFreedMemoryIsGivenBack) GTEST_SKIP() << "AddressSanitizer keeps what is freed";
  constexpr int64_t kBlock = 100'000, kBlocks = 640;  // as small as malloc cuts from its heap
  const int64_t before = ResidentBytes();
  PassArena arena;
  const at::Tensor result = Pass(arena, input_, [&] {
    std::vector<at::Tensor> blocks;
    for (int64_t i = 0; i < kBlocks; ++i) blocks.push_back(at::zeros({kBlock}, at::kByte));
    EXPECT_GE(ResidentBytes() - before, kBlock * kBlocks / 2);
    return Filled(1000, 1.0F);
  });
  EXPECT_LT(ResidentBytes() - before, kBlock * kBlocks / 4);
}

TEST_F(PassArenaTest, ALedgerSeesWhatItSeesWithoutAnArena) {
  const auto measured = [](const std::function<at::Tensor()>& pass) {
    const MemoryLedger ledger;
    const at::Tensor result = pass();
    return std::pair(ledger.live_bytes(), ledger.peak_bytes());
  };
  const auto expected = measured([&] { return Layers(input_); });
  PassArena arena;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(measured([&] { return Pass(arena, input_); }), expected) << i;
  }
  EXPECT_EQ(arena.passes().as_planned, 2);
}

TEST_F(PassArenaTest, TellsTheGapsBetweenBlocks) {
  PassArena arena;
  for (int i = 0; i < 2; ++i) {
    PassArena::Scope pass(arena, input_);
    MemoryLedger ledger;
    at::Tensor result = Layers(input_);
    pass.Complete();
    EXPECT_GT(pass.gap_bytes(), 0) << "headers at least";
    // Those of what a ledger sees: results do not lie there.
    EXPECT_LE(ledger.peak_bytes() + pass.gap_bytes(), 1.1 * ledger.peak_bytes());
    if (i == 1) {
      EXPECT_GE(ledger.peak_bytes() + pass.gap_bytes() + 4096,
                static_cast<int64_t>(arena.memory().bytes()));
    }
  }
}

TEST_F(PassArenaTest, WhoMeasuresInTheMiddleOfAPassIsNotRecorded) {
  PassArena arena;
  bool measure = true;
  const auto layers = [&] {
    if (measure) {
      const UncountedMemory uncounted;
      EXPECT_TRUE(Holds(Filled(123, 1.0F), 1.0F));
    }
    return Layers(input_);
  };
  Pass(arena, input_, layers);
  measure = false;
  Pass(arena, input_, layers);
  EXPECT_EQ(arena.passes().as_planned, 1);
}

// LibTorch's operators ask for raw memory here and there.
TEST_F(PassArenaTest, RawMemoryIsFreedByItsAddress) {
  PassArena arena;
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  void* outside = allocator.raw_allocate(100);
  const auto layers = [&] {
    void* const within = allocator.raw_allocate(3000);
    memset(within, 1, 3000);
    allocator.raw_deallocate(within);
    if (outside != nullptr) allocator.raw_deallocate(std::exchange(outside, nullptr));
    return Layers(input_);
  };
  for (int i = 0; i < 3; ++i) Pass(arena, input_, layers);
  EXPECT_EQ(arena.passes().as_planned, 2);
  void* const large = allocator.raw_allocate(2 * kHugePageBytes);
  memset(large, 1, 2 * kHugePageBytes);
  allocator.raw_deallocate(large);
}

TEST_F(PassArenaTest, ThePlansUsedLeastRecentlyGo) {
  PassArena arena;
  constexpr int64_t kShapes = 2 + PassArena::kMostBlocks / PassArena::kMostOfPass;
  std::vector<at::Tensor> held;
  const auto run = [&](int64_t numbers) {
    Pass(arena, at::empty({numbers}), [&] {
      for (size_t i = 0; i < PassArena::kMostOfPass; ++i) held.push_back(at::empty({1}));
      return Layers(input_);
    });
    held.clear();
  };
  for (int64_t i = 0; i < kShapes; ++i) {
    run(1);
    run(2 + i);
  }
  EXPECT_EQ(arena.passes().recorded, 1 + kShapes) << "what is used stays";
  EXPECT_LE(arena.plans(), 1 + PassArena::kMostBlocks / PassArena::kMostOfPass);
  run(2 + kShapes - 1);
  EXPECT_EQ(arena.passes().recorded, 1 + kShapes);
  run(2);
  EXPECT_EQ(arena.passes().recorded, 2 + kShapes);
}

// Whether the mapping that holds the address was advised.
bool AsksForHugePages(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  bool holds = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream head(line);
    if (head >> std::hex >> begin >> dash >> end && dash == '-') {
      holds = begin <= reinterpret_cast<uintptr_t>(address) &&
              reinterpret_cast<uintptr_t>(address) < end;
    } else if (holds && line.starts_with("VmFlags:")) {
      return line.find(" hg") != line.npos;
    }
  }
  return false;
}

TEST(CpuAllocatorTest, LargeTensorsAndSlabsLieInHugePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled")) {
    GTEST_SKIP() << "this kernel has no transparent huge pages";
  }
  InstallCpuAllocator();
  const auto bytes = static_cast<int64_t>(kHugePageBytes);
  const at::Tensor large = at::empty({bytes}, at::kByte);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.const_data_ptr()) % kHugePageBytes, 0);
  EXPECT_TRUE(AsksForHugePages(large.const_data_ptr()));
  PassMemory memory;
  const PassMemory::Range range = memory.Reserve(3 * kHugePageBytes + 5000);
  const c10::DataPtr block = range.Take(0, 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % kHugePageBytes, kBlockHeader);
  EXPECT_TRUE(AsksForHugePages(block.get()));
}

}  // namespace
}  // namespace fovea::kernels
