// LibTorch's allocator of the CPU with a count of what it is asked for.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <vector>

#include "kernels/memory/cpu_allocator.h"
#include "kernels/memory/pass_memory.h"

namespace fovea::kernels {

// Counts the allocations of all threads, of more than no bytes, while it lives, before they reach
// the allocator of models.
class CountingAllocator {
 public:
  struct Allocation {
    const void* address = nullptr;
    size_t bytes = 0;
  };

  CountingAllocator() { Counter::Installed().Begin(); }
  ~CountingAllocator() { Counter::Installed().End(); }
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  std::vector<Allocation> all() const { return Counter::Installed().all(); }
  // Those that are not of the slab: which were allocated.
  std::vector<Allocation> Outside(const PassMemory& memory) const {
    std::vector<Allocation> outside;
    for (const Allocation& allocation : all()) {
      if (!memory.Holds(allocation.address)) outside.push_back(allocation);
    }
    return outside;
  }

 private:
  class Counter final : public c10::Allocator {
   public:
    // Stays for the rest of the process: tensors know their allocator.
    static Counter& Installed() {
      static Counter& counter = *[] {
        InstallCpuAllocator();
        auto* made = new Counter(*c10::GetCPUAllocator());
        c10::SetCPUAllocator(made);
        return made;
      }();
      return counter;
    }

    c10::DataPtr allocate(size_t bytes) override {
      c10::DataPtr memory = of_models_.allocate(bytes);
      const std::lock_guard lock(mutex_);
      if (counting_ && bytes > 0) all_.push_back({memory.get(), bytes});
      return memory;
    }
    c10::DeleterFnPtr raw_deleter() const override { return of_models_.raw_deleter(); }
    void copy_data(void* to, const void* from, size_t bytes) const override {
      default_copy_data(to, from, bytes);
    }

    void Begin() {
      const std::lock_guard lock(mutex_);
      counting_ = true;
      all_.clear();
    }
    void End() {
      const std::lock_guard lock(mutex_);
      counting_ = false;
    }
    std::vector<Allocation> all() {
      const std::lock_guard lock(mutex_);
      return all_;
    }

   private:
    explicit Counter(c10::Allocator& of_models) : of_models_(of_models) {}
    c10::Allocator& of_models_;
    std::mutex mutex_;
    bool counting_ = false;
    std::vector<Allocation> all_;
  };
};

}  // namespace fovea::kernels
