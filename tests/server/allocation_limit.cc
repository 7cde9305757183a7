#include "tests/server/allocation_limit.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::atomic<size_t> limit{SIZE_MAX};
std::atomic<int> refused_count{0};

}  // namespace

void* operator new(size_t size) {
  void* memory = nullptr;
  if (size < limit) {
    memory = std::malloc(size > 0 ? size : 1);
  } else {
    ++refused_count;
  }
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace fovea {

AllocationLimit::AllocationLimit(size_t bytes) {
  refused_count = 0;
  limit = bytes;
}
AllocationLimit::~AllocationLimit() { limit = SIZE_MAX; }
int AllocationLimit::refused() const { return refused_count; }

}  // namespace fovea
