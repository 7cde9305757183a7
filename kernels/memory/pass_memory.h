// The memory that the planned blocks of a model's passes lie in.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>
#include <mutex>

namespace fovea::kernels {

class Slab;

// One slab, of which each running pass reserves a range: passes that share a model's threads, each
// with its part of the images, hold no more of it together than the largest pass. It grows to what
// passes have reserved at the same time; from kHugePageBytes on it lies in huge pages. Thread-safe.
// Blocks and ranges may outlive it: the slab that they are of stays until the last of them goes.
class PassMemory {
 public:
  // Movable; empty when made by default, and where there is no memory.
  class Range {
   public:
    Range() = default;
    ~Range();
    Range(Range&& other) noexcept;
    Range& operator=(Range&& other) noexcept;

    // A block of `bytes` for a tensor, its header at `offset` of the range (kBlockHeader). Null
    // where it overlaps one that is still used, whoever took it. Its address is its context, as
    // raw_allocate has it. The ledgers of the threads that take and free it hear of it as of any
    // allocation.
    c10::DataPtr Take(size_t offset, size_t bytes) const;

   private:
    friend class PassMemory;
    Range(std::shared_ptr<Slab> slab, size_t begin);
    std::shared_ptr<Slab> slab_;
    size_t begin_ = 0;
  };

  Range Reserve(size_t bytes);

  // Gives the slab back, unless a pass has a range of it. The next one makes it anew.
  void GiveBack();

  // Of the slab.
  size_t bytes() const;
  bool Holds(const void* address) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Slab> slab_;
};

// Frees a block by its address alone; false, and nothing is done, where it is none's.
bool TryFreeBlock(void* address);

}  // namespace fovea::kernels
