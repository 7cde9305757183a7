#include "kernels/memory/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "kernels/memory/pass_arena.h"

namespace fovea::kernels {
namespace {

thread_local AllocationSource* thread_source = nullptr;

class CpuAllocator final : public c10::Allocator {
 public:
  explicit CpuAllocator(c10::Allocator& ordinary)
      : ordinary_(ordinary),
        is_libtorchs_(&ordinary == c10::GetDefaultCPUAllocator() &&
                      ordinary.raw_deleter() != nullptr) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes > 0 && thread_source != nullptr) return thread_source->Allocate(bytes);
    return AllocateOrdinary(bytes);
  }

  c10::DataPtr AllocateOrdinary(size_t bytes) {
    if (bytes >= kHugePageBytes && is_libtorchs_) {
      // As LibTorch's alloc_cpu, so that its free_cpu frees it. Where there is no memory LibTorch
      // says so.
      void* memory = nullptr;
      if (posix_memalign(&memory, kHugePageBytes, bytes) == 0) {
        AdviseHugePages(memory, bytes);
        c10::profiledCPUMemoryReporter().New(memory, bytes);
        return {memory, memory, ordinary_.raw_deleter(), c10::Device(c10::kCPU)};
      }
    }
    return ordinary_.allocate(bytes);
  }

  // LibTorch's operators use it. Tensors have the deleters of who gave their memory, which know it
  // sooner.
  c10::DeleterFnPtr raw_deleter() const override {
    return ordinary_.raw_deleter() != nullptr ? &FreeRaw : nullptr;
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void FreeRaw(void* address);

  c10::Allocator& ordinary_;
  const bool is_libtorchs_;
};

CpuAllocator& Installed() {
  // Never destroyed: tensors may outlive everything.
  static CpuAllocator& allocator = *[] {
    auto* made = new CpuAllocator(*c10::GetCPUAllocator());
    c10::SetCPUAllocator(made);
    return made;
  }();
  return allocator;
}

void CpuAllocator::FreeRaw(void* address) {
  if (!TryFreePassBlock(address)) Installed().ordinary_.raw_deleter()(address);
}

}  // namespace

void AdviseHugePages(void* begin, size_t bytes) {
  // Advice: whether it is taken shows in time alone.
  madvise(begin, bytes, MADV_HUGEPAGE);
}

void GiveFreeMemoryBack() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void InstallCpuAllocator() { Installed(); }

c10::DataPtr AllocateOrdinary(size_t bytes) { return Installed().AllocateOrdinary(bytes); }

AllocationSource* ExchangeThreadSource(AllocationSource* source) {
  return std::exchange(thread_source, source);
}

}  // namespace fovea::kernels
