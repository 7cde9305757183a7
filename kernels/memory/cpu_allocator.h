// LibTorch's allocator of the CPU, as models have it: large tensors in huge pages, and a thread's
// allocations answered from elsewhere for as long as it says so.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace fovea::kernels {

// From so many bytes on memory lies in huge pages of as many, as with LibTorch's own
// THP_MEM_ALLOC_ENABLE: below, the pages would hold more than was asked for. They are asked for by
// madvise(MADV_HUGEPAGE): where /sys/kernel/mm/transparent_hugepage/enabled is `never`, or the
// kernel has none to give, the pages are the small ones.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;
void AdviseHugePages(void* begin, size_t bytes);

// Puts the allocator before LibTorch's, for the rest of the process: once, each further call
// returns at once. Before the first model is loaded, so that its weights are allocated by it. What
// it does not answer otherwise goes to the one that was there; huge pages are asked for only where
// that is LibTorch's own.
void InstallCpuAllocator();

// As the allocator that InstallCpuAllocator has found, but for the huge pages.
c10::DataPtr AllocateOrdinary(size_t bytes);

// Has malloc give back to the system what it keeps for allocations to come. Takes milliseconds, in
// which other threads may wait for malloc. To be called when what was allocated will not be again:
// once a model is ready.
void GiveFreeMemoryBack();

// Answers allocations of one thread, of at least one byte.
class AllocationSource {
 public:
  virtual ~AllocationSource() = default;
  virtual c10::DataPtr Allocate(size_t bytes) = 0;
};

// From now on `source` answers the calling thread's allocations; null: nobody but the allocator.
// Returns who did before.
AllocationSource* ExchangeThreadSource(AllocationSource* source);

}  // namespace fovea::kernels
