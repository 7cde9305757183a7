// Where the blocks of a pass lie whose allocations are known: in one range of memory, so that
// blocks that live at the same time do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace fovea::kernels {

// The alignment of LibTorch's allocator.
inline constexpr size_t kBlockAlignment = 64;
// Before each block lies what PassMemory keeps of it.
inline constexpr size_t kBlockHeader = kBlockAlignment;
// What a block takes, header and all.
constexpr size_t PlacedBytes(size_t bytes) {
  return (kBlockHeader + bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

// A block of a pass, as it was seen. Moments count allocations and frees, so that none is twice.
struct BlockLife {
  static constexpr int64_t kBeyond = std::numeric_limits<int64_t>::max();
  size_t bytes = 0;
  int64_t begin = 0;
  int64_t end = kBeyond;  // kBeyond: it lived on when the pass had ended, as results do
};

struct PassPlan {
  struct Place {
    static constexpr size_t kNone = std::numeric_limits<size_t>::max();
    size_t offset = kNone;  // of its header; kNone: of a block that lives on, not in the range
    size_t bytes = 0;
  };
  std::vector<Place> places;  // of each block, in the order of their allocation
  size_t bytes = 0;           // of the range
  size_t peak_bytes = 0;      // what its blocks held together at most, without headers and gaps
};

// Places the largest block first, each into the smallest gap that holds it between those already
// placed with which it lives: "greedy by size for offset calculation" of Pisarchyk and Lee,
// "Efficient Memory Management for Deep Neural Net Inference", 2020, section 5. That leaves gaps
// where a residual lives on past a larger block: then the block that lies highest is placed first,
// and all others anew, as long as that helps, a few times. Takes time as the square of the number
// of blocks.
PassPlan PlanPass(std::span<const BlockLife> blocks);

}  // namespace fovea::kernels
