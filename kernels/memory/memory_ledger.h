// How many bytes the tensors of one batch held, live and at the peak.
//
// LibTorch reports every allocation of its CPU and CUDA allocators to a thread-local observer; the
// ledger is that observer, so nothing is swapped and other threads are not counted. It sits where
// LibTorch's profiler would sit: the two cannot be used together. Not seen: oneDNN's scratch
// memory, which does not come from LibTorch's allocator, and allocations made inside OpenMP worker
// threads.
#pragma once

#include <cstdint>
#include <memory>

namespace fovea::kernels {

// Counts the allocations of the thread that made it, from its construction to its destruction. Not
// thread-safe.
class MemoryLedger {
 public:
  MemoryLedger();
  ~MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // Bytes allocated since the start and not yet freed. Freeing what was there before the start does
  // not count.
  int64_t live_bytes() const;
  // The largest live_bytes() so far.
  int64_t peak_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// While one lives, what its thread allocates and frees is no pass's: no ledger counts it, and no
// arena records it. For who measures in the middle of a pass.
class UncountedMemory {
 public:
  UncountedMemory();
  ~UncountedMemory();
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

}  // namespace fovea::kernels
