#include "tests/kernels/ptx/device_memory.h"

#include <cstring>
#include <set>

namespace fovea::ptx {

DeviceMemory& DeviceMemory::Instance() {
  static DeviceMemory& memory = *new DeviceMemory;  // tensors of statics outlive any other
  return memory;
}

void DeviceMemory::Add(const void* begin, size_t bytes) {
  const std::lock_guard lock(mutex_);
  allocations_[reinterpret_cast<uintptr_t>(begin)] = bytes;
}

void DeviceMemory::Remove(const void* begin) {
  const std::lock_guard lock(mutex_);
  allocations_.erase(reinterpret_cast<uintptr_t>(begin));
}

std::vector<std::span<std::byte>> DeviceMemory::ReachableFrom(
    std::span<const std::byte> arguments) const {
  const std::lock_guard lock(mutex_);
  std::set<uintptr_t> begins;
  for (size_t i = 0; i + sizeof(uintptr_t) <= arguments.size(); i += sizeof(uintptr_t)) {
    uintptr_t pointer;
    std::memcpy(&pointer, arguments.data() + i, sizeof(pointer));
    auto next = allocations_.upper_bound(pointer);
    if (next == allocations_.begin()) continue;
    const auto& [begin, bytes] = *--next;
    if (pointer - begin < bytes) begins.insert(begin);
  }
  std::vector<std::span<std::byte>> reachable;
  for (const uintptr_t begin : begins) {
    reachable.emplace_back(reinterpret_cast<std::byte*>(begin), allocations_.at(begin));
  }
  return reachable;
}

}  // namespace fovea::ptx
