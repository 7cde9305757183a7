// A GPU as lanes see it: CUDA's (cuda_gpu.cc), or one that a test makes of host memory. What a lane
// does with it, and in which order, is in gpu_lane.cc alone.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/core/clock.h"
#include "server/core/memory_budget.h"

namespace fovea {

// Work that a stream has captured, to be done again over the same memory. Must not outlive its
// stream.
class GpuGraph {
 public:
  virtual ~GpuGraph() = default;
};

// Moments in a stream's work.
enum class GpuMark { kBegin, kCopiedIn, kComputed, kCopiedOut };
inline constexpr int kGpuMarks = 4;

// Work of a GPU, done in the order in which it is enqueued, while whoever enqueues it goes on:
// until Await has returned, what the work reads is not to be written and what it writes not to be
// read. Used by one thread at a time. Everything throws c10::Error, also about what was enqueued
// before.
class GpuStream {
 public:
  virtual ~GpuStream() = default;

  // `work` calls operators of LibTorch, which go to this stream.
  virtual void Enqueue(std::function<void()> work) = 0;

  // Captures what the operators of `work` do, without doing it; they have been run once before, and
  // wait for nothing and read no memory of the host. Tensors that `work` makes are written by each
  // replay. All graphs of a stream share their memory: what one leaves there lasts until the next
  // is replayed. Returns when it is captured.
  virtual std::unique_ptr<GpuGraph> Capture(std::function<void()> work) = 0;
  virtual void Replay(const GpuGraph& graph) = 0;

  virtual void Mark(GpuMark mark) = 0;
  // The device's time between two marks of work that has been awaited.
  virtual Nanos Between(GpuMark from, GpuMark to) const = 0;

  // Returns when everything is done that was enqueued.
  virtual void Await() = 0;
  // Likewise, where an error has been told, or nobody is left to tell one: it drops what Await
  // would throw.
  virtual void AwaitIgnoringErrors() noexcept = 0;
};

// Thread-safe. Outlives its streams.
class Gpu {
 public:
  // Models may hold `max_bytes` of it together.
  explicit Gpu(int64_t max_bytes) : budget_(max_bytes, SteadyClock()) {}
  virtual ~Gpu() = default;

  virtual int number() const = 0;          // CUDA's, by which models ask for it
  virtual std::string name() const = 0;    // "GPU 0 (NVIDIA H200)"
  virtual std::string uuid() const = 0;    // "GPU-8674351b-..."
  virtual c10::Device device() const = 0;  // of tensors that lie in its memory

  // Bytes of its memory that are free, or kept by the allocator without use; nothing where that is
  // not known.
  virtual std::optional<int64_t> AvailableMemory() const = 0;
  // Bytes of this process.
  struct AllocatorBytes {
    int64_t allocated;  // by tensors
    int64_t reserved;   // by the allocator, for these and those to come
  };
  virtual AllocatorBytes AllocatorMemory() const = 0;
  // Of what models that are loaded hold while they run. What they leave free between two batches is
  // not another's.
  MemoryBudget& budget() const { return budget_; }

  // Pinned memory of the host. Not initialised.
  virtual at::Tensor HostBuffer(at::IntArrayRef sizes, at::ScalarType type) const = 0;
  virtual std::unique_ptr<GpuStream> MakeStream() const = 0;

 private:
  mutable MemoryBudget budget_;
};

}  // namespace fovea
