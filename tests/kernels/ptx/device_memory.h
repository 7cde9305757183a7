// The registry of the host's allocations that stand in for a GPU's global memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <span>
#include <vector>

namespace fovea::ptx {

// Thread-safe.
class DeviceMemory {
 public:
  static DeviceMemory& Instance();

  void Add(const void* begin, size_t bytes);
  void Remove(const void* begin);

  // The allocations into which some aligned 8 bytes of a kernel's arguments point: all that the
  // kernel may touch.
  std::vector<std::span<std::byte>> ReachableFrom(std::span<const std::byte> arguments) const;

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, size_t> allocations_;
};

// For containers that kernels read or write: std::vector<float, DeviceAllocator<float>>.
template <class T>
struct DeviceAllocator {
  using value_type = T;
  DeviceAllocator() = default;
  template <class U>
  DeviceAllocator(const DeviceAllocator<U>&) {}

  T* allocate(size_t count) {
    // Aligned as GPU memory is.
    void* begin = ::operator new(count * sizeof(T), kAlignment);
    DeviceMemory::Instance().Add(begin, count * sizeof(T));
    return static_cast<T*>(begin);
  }
  void deallocate(T* begin, size_t) {
    DeviceMemory::Instance().Remove(begin);
    ::operator delete(begin, kAlignment);
  }
  bool operator==(const DeviceAllocator&) const = default;

 private:
  static constexpr std::align_val_t kAlignment{256};
};

template <class T>
using DeviceVector = std::vector<T, DeviceAllocator<T>>;

}  // namespace fovea::ptx
