// The memories that a thread block sees. Addresses are checked: bounds, alignment, and what
// race_detector.h finds. Accesses throw a Violation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tests/kernels/ptx/race_detector.h"

namespace fovea::ptx {

// Throws a Violation unless `bytes` divides the address. bytes: a power of two.
void CheckAligned(unsigned thread, uint64_t address, int bytes);

// Global memory that one launch may touch: a few allocations of the host.
class GlobalMemory {
 public:
  explicit GlobalMemory(std::vector<std::span<std::byte>> allocations)
      : allocations_(std::move(allocations)) {}
  // Where the bytes lie, which are in one allocation.
  std::byte* At(unsigned thread, uint64_t address, int bytes);

 private:
  std::vector<std::span<std::byte>> allocations_;
  size_t last_ = 0;  // which the access before was in
};

// A block's shared memory, at kMemoryBase in its address space.
class SharedMemory {
 public:
  SharedMemory(int64_t bytes, unsigned threads);
  void Clear();  // a new block begins

  // Of the bytes, those that `used` names must have been written.
  const std::byte* Read(unsigned thread, uint64_t address, int bytes, uint32_t used);
  std::byte* Write(unsigned thread, uint64_t address, int bytes);
  // A copy that lands when its thread has waited for it.
  void StartCopy(unsigned thread, uint64_t address, int bytes);
  void EndCopy(unsigned thread, uint64_t address, std::span<const std::byte> from);

  RaceDetector& races() { return races_; }

 private:
  int64_t OffsetOf(unsigned thread, uint64_t address, int bytes) const;

  std::vector<std::byte> bytes_;
  RaceDetector races_;
};

// All threads' local memory, each at kMemoryBase in the thread's own address space.
class LocalMemory {
 public:
  LocalMemory(int64_t bytes_of_thread, unsigned threads);
  void Clear();
  const std::byte* Read(unsigned thread, uint64_t address, int bytes, uint32_t used);
  std::byte* Write(unsigned thread, uint64_t address, int bytes);

 private:
  int64_t OffsetOf(unsigned thread, uint64_t address, int bytes) const;

  int64_t bytes_of_thread_;
  std::vector<std::byte> bytes_;
  std::vector<bool> written_;
};

// A launch's parameters, at kMemoryBase. They are only read.
class ParameterMemory {
 public:
  explicit ParameterMemory(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  const std::byte* Read(unsigned thread, uint64_t address, int bytes) const;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace fovea::ptx
