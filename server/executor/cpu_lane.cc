#include "server/executor/cpu_lane.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/check.h"
#include "kernels/memory/memory_ledger.h"
#include "kernels/memory/pass_arena.h"
#include "kernels/memory/pass_memory.h"
#include "model_zoo/model.h"
#include "server/executor/intra_op_threads.h"
#include "server/executor/pixel_copy.h"

namespace fovea {
namespace {

// What the passes of a model's lanes share, until none of their threads has anything to run: a
// model that is not asked then holds no more than its weights and inputs. Thread-safe.
class LanesMemory {
 public:
  explicit LanesMemory(int lanes) : lanes_(static_cast<size_t>(lanes)) {}

  const std::shared_ptr<kernels::PassMemory>& memory() const { return memory_; }

  void BeginPass() {
    const std::lock_guard lock(mutex_);
    idle_.erase(std::this_thread::get_id());
  }
  void IdleThread() {
    const std::lock_guard lock(mutex_);
    idle_.insert(std::this_thread::get_id());
    if (idle_.size() >= lanes_) memory_->GiveBack();
  }

 private:
  const size_t lanes_;
  const std::shared_ptr<kernels::PassMemory> memory_ = std::make_shared<kernels::PassMemory>();
  std::mutex mutex_;
  std::set<std::thread::id> idle_;
};

// The input buffer is kept from batch to batch: allocating it anew would fault its pages in every
// time.
class CpuLane final : public Lane {
 public:
  CpuLane(const models::Model& model, const models::Preprocessing& preprocessing,
          int max_batch_size, const IntraOpThreads& intra_op_threads, LanesMemory& memory)
      : model_(model),
        intra_op_threads_(intra_op_threads),
        memory_(memory),
        arena_(memory.memory()),
        pixels_(preprocessing),
        buffer_(Buffer(model.info(), max_batch_size)),
        inputs_(Inputs(model.info(), max_batch_size, buffer_)) {}

  int Gather(std::span<const std::unique_ptr<InferenceTask>> tasks) override {
    const uint64_t shape_key = tasks.front()->shape_key();
    const at::Tensor& input = inputs_.at(shape_key);
    int images = 0;
    for (const auto& task : tasks) {
      FOVEA_CHECK(task->shape_key() == shape_key);
      pixels_.Copy(task->pixels(), input.narrow(0, images, task->images()));
      images += task->images();
    }
    return images;
  }

  void ClearInput() override { buffer_.zero_(); }

  Pass Run(const BatchSize& batch, models::ForwardContext& context) override {
    const at::Tensor input = inputs_.at(batch.shape_key).narrow(0, 0, batch.images);
    intra_op_threads_.Begin(batch.threads);
    const absl::Cleanup end = [&] { intra_op_threads_.End(batch.threads); };
    memory_.BeginPass();
    kernels::MemoryLedger ledger;
    kernels::PassArena::Scope scope(arena_, input);
    Pass pass{.outputs = model_.RunBatch(input, context)};
    if (!pass.outputs.empty()) scope.Complete();
    pass.peak_bytes =
        ledger.peak_bytes() + scope.gap_bytes() + static_cast<int64_t>(input.nbytes());
    return pass;
  }

  // oneDNN's primitives are made by the first pass of a size.
  Pass MakeReady(const BatchSize& batch, models::ForwardContext& context) override {
    return Run(batch, context);
  }

 private:
  // With room for `images` of the largest size. Not written to: of a buffer for more than comes,
  // the rest takes no memory.
  static at::Tensor Buffer(const models::ModelInfo& info, int images) {
    int64_t most = 0;
    for (const auto& [height, width] : info.sizes()) most = std::max(most, height * width);
    const bool bytes = info.pixel_input == models::PixelInput::kBytes;
    return at::empty({images * most * 3}, bytes ? at::kByte : at::kFloat);
  }
  // The buffer as images of each size.
  static std::vector<at::Tensor> Inputs(const models::ModelInfo& info, int images,
                                        const at::Tensor& buffer) {
    const bool bytes = info.pixel_input == models::PixelInput::kBytes;
    std::vector<at::Tensor> inputs;
    for (const auto& [height, width] : info.sizes()) {
      const at::Tensor part = buffer.narrow(0, 0, images * height * width * 3);
      inputs.push_back(bytes ? part.view({images, height, width, 3})
                             : part.view({images, 3, height, width}));
    }
    return inputs;
  }

  const models::Model& model_;
  const IntraOpThreads& intra_op_threads_;
  LanesMemory& memory_;
  kernels::PassArena arena_;
  const PixelCopy pixels_;
  const at::Tensor buffer_;
  const std::vector<at::Tensor> inputs_;  // by shape key, in the buffer
};

class CpuDevice final : public LaneDevice {
 public:
  explicit CpuDevice(const CpuLaneOptions& options)
      : options_(options),
        intra_op_threads_(options.threads_per_batch, options.lanes),
        memory_(options.lanes) {}

  std::string_view name() const override { return "CPU"; }

  absl::Status Prepare(models::Model& model, models::Precision precision) override {
    model.Prepare(at::kCPU, precision);
    return absl::OkStatus();
  }

  std::unique_ptr<Lane> MakeLane(const models::Model& model,
                                 const models::Preprocessing& preprocessing,
                                 int max_batch_size) const override {
    return std::make_unique<CpuLane>(model, preprocessing, max_batch_size, intra_op_threads_,
                                     memory_);
  }

  std::vector<int> WarmUpSizes(int max_batch_size) const override {
    return CpuWarmUpSizes(max_batch_size);
  }

  int Concurrent(int lanes) const override {
    return std::clamp(options_.threads / options_.threads_per_batch.front(), 1, lanes);
  }

  // What is not used yet of one model's share is free for another's.
  Room SetAside(int64_t bytes) override {
    const std::optional<int64_t> available =
        options_.available_memory ? options_.available_memory() : std::nullopt;
    if (!available || bytes <= *available) return {};
    return {.fits = false, .available = *available};
  }

  void EnterThread() const override { intra_op_threads_.Enter(); }
  void IdleThread() const override {
    intra_op_threads_.Idle();
    memory_.IdleThread();
  }
  void LeaveThread() const override { IntraOpThreads::Leave(); }

 private:
  const CpuLaneOptions options_;
  const IntraOpThreads intra_op_threads_;
  mutable LanesMemory memory_;
};

}  // namespace

std::vector<int> CpuWarmUpSizes(int max_batch_size) {
  constexpr int kEvery = 32;
  std::vector<int> sizes;
  for (int size = 1; size < max_batch_size; size += size < kEvery ? 1 : size / 8) {
    sizes.push_back(size);
  }
  sizes.push_back(max_batch_size);
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

std::unique_ptr<LaneDevice> MakeCpuDevice(const CpuLaneOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace fovea
