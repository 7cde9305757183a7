#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/log.h"
#include "server/executor/gpu.h"
#include "server/executor/gpus.h"

namespace fovea {
namespace {

// at::cuda::CUDAGraph replays on the current stream.
class CudaGraph final : public GpuGraph {
 public:
  mutable at::cuda::CUDAGraph graph;
};

class CudaStream final : public GpuStream {
 public:
  explicit CudaStream(c10::DeviceIndex index)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)) {}
  ~CudaStream() override { AwaitIgnoringErrors(); }

  void Enqueue(std::function<void()> work) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    work();
  }

  std::unique_ptr<GpuGraph> Capture(std::function<void()> work) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    auto captured = std::make_unique<CudaGraph>();
    // Other threads load models meanwhile, and wait for their own streams.
    captured->graph.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (const std::exception& error) {
      try {
        captured->graph.capture_end();
      } catch (const c10::Error&) {
        // CUDA's, whatever the first one was: LibTorch's allocator now stays in the capture.
        Log(LogLevel::kError, absl::StrCat("a recording failed: ", error.what()));
        throw;
      }
      throw;
    }
    captured->graph.capture_end();
    return captured;
  }

  void Replay(const GpuGraph& graph) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    static_cast<const CudaGraph&>(graph).graph.replay();
  }

  void Mark(GpuMark mark) override { marks_[static_cast<int>(mark)].record(stream_); }

  Nanos Between(GpuMark from, GpuMark to) const override {
    const float ms = marks_[static_cast<int>(from)].elapsed_time(marks_[static_cast<int>(to)]);
    return std::llround(static_cast<double>(ms) * kMillisecond);
  }

  void Await() override {
    done_.record(stream_);
    done_.synchronize();
  }

  void AwaitIgnoringErrors() noexcept override {
    // Also after an error of the device that stays, which whoever gives it work next is told, and
    // which a guard of LibTorch's would throw.
    static_cast<void>(cudaStreamSynchronize(handle_));
    static_cast<void>(cudaGetLastError());
  }

 private:
  const c10::cuda::CUDAStream stream_;
  const cudaStream_t handle_ = stream_.stream();
  const at::cuda::MempoolId_t pool_ = at::cuda::graph_pool_handle();
  std::array<at::cuda::CUDAEvent, kGpuMarks> marks_{
      at::cuda::CUDAEvent(cudaEventDefault), at::cuda::CUDAEvent(cudaEventDefault),
      at::cuda::CUDAEvent(cudaEventDefault), at::cuda::CUDAEvent(cudaEventDefault)};
  // The thread sleeps until it comes: cores are there for decoding images.
  at::cuda::CUDAEvent done_{cudaEventBlockingSync | cudaEventDisableTiming};
};

class CudaGpu final : public Gpu {
 public:
  CudaGpu(c10::DeviceIndex index, int64_t max_bytes)
      : Gpu(std::min(max_bytes, FreeMemory(index))),
        index_(index),
        name_(absl::StrCat("GPU ", index, " (", at::cuda::getDeviceProperties(index)->name, ")")),
        uuid_(TextOf(at::cuda::getDeviceProperties(index)->uuid)) {}

  int number() const override { return index_; }
  std::string name() const override { return name_; }
  std::string uuid() const override { return uuid_; }
  c10::Device device() const override { return {c10::kCUDA, index_}; }

  std::optional<int64_t> AvailableMemory() const override {
    // What models that are gone have left is free, too.
    c10::cuda::CUDACachingAllocator::emptyCache();
    return FreeMemory(index_);
  }

  AllocatorBytes AllocatorMemory() const override {
    using c10::CachingAllocator::StatType;
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
    constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);
    return {.allocated = stats.allocated_bytes[kAll].current,
            .reserved = stats.reserved_bytes[kAll].current};
  }

  at::Tensor HostBuffer(at::IntArrayRef sizes, at::ScalarType type) const override {
    const c10::cuda::CUDAGuard guard(index_);
    return at::empty(sizes, at::TensorOptions(type).pinned_memory(true));
  }

  std::unique_ptr<GpuStream> MakeStream() const override {
    return std::make_unique<CudaStream>(index_);
  }

 private:
  static int64_t FreeMemory(c10::DeviceIndex index) {
    const c10::cuda::CUDAGuard guard(index);
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return static_cast<int64_t>(free);
  }

  // In groups of 4, 2, 2, 2 and 6 bytes.
  static std::string TextOf(const cudaUUID_t& uuid) {
    std::string text = "GPU";
    for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
      if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
      const auto byte = static_cast<uint8_t>(uuid.bytes[i]);
      absl::StrAppend(&text, absl::Hex(byte, absl::kZeroPad2));
    }
    return text;
  }

  const c10::DeviceIndex index_;
  const std::string name_, uuid_;
};

}  // namespace

absl::StatusOr<Gpus> FindGpus(int64_t max_bytes) {
  return UsableGpus(c10::cuda::device_count(), [&](int number) {
    // Or the allocator could not be asked what it holds before the first tensor.
    at::globalContext().lazyInitDevice(at::kCUDA);
    return std::make_shared<CudaGpu>(static_cast<c10::DeviceIndex>(number), max_bytes);
  });
}

}  // namespace fovea
