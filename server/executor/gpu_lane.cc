#include "server/executor/gpu_lane.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "kernels/memory/memory_ledger.h"
#include "model_zoo/model.h"
#include "server/executor/intra_op_threads.h"
#include "server/executor/pixel_copy.h"

namespace fovea {
namespace {

// Pixels go as they came, bytes as bytes, into memory that the GPU copies from, in one copy to the
// GPU, and are normalised there. A model whose work is always the same is captured once for each
// size and number of images, and replayed: launching its hundreds of operators one by one takes
// longer than they do.
class GpuLane final : public Lane {
 public:
  GpuLane(const models::Model& model, const models::Preprocessing& preprocessing,
          int max_batch_size, const Gpu& gpu)
      : model_(model),
        gpu_(gpu),
        pixels_(preprocessing),
        max_batch_size_(max_batch_size),
        takes_bytes_(model.info().pixel_input == models::PixelInput::kBytes),
        stream_(gpu.MakeStream()) {
    for (const auto& [height, width] : model.info().sizes()) {
      most_pixels_ = std::max(most_pixels_, height * width);
    }
    const int64_t numbers = max_batch_size * most_pixels_ * 3;
    staging_ =
        gpu.HostBuffer({takes_bytes_ ? numbers : numbers * int64_t{sizeof(float)}}, at::kByte);
    stream_->Enqueue([this, numbers, device = at::TensorOptions().device(gpu.device())] {
      bytes_ = at::zeros({numbers}, device.dtype(at::kByte));
      if (takes_bytes_) return;
      normalised_ = at::zeros({numbers}, device.dtype(at::kFloat));
      scale_ = PerChannel(pixels_.normalisation().scale).to(gpu_.device());
      offset_ = PerChannel(pixels_.normalisation().offset).to(gpu_.device());
    });
    stream_->Await();
  }

  ~GpuLane() override { stream_->AwaitIgnoringErrors(); }

  int Gather(std::span<const std::unique_ptr<InferenceTask>> tasks) override {
    shape_key_ = tasks.front()->shape_key();
    // Numbers beside bytes are rare: there the host normalises the bytes.
    gathered_bytes_ = takes_bytes_ || std::ranges::all_of(tasks, [](const auto& task) {
                        return PixelCopy::AreBytes(task->pixels());
                      });
    contents_.clear();
    const at::Tensor to = Staging(max_batch_size_);
    const auto [height, width] = Size();
    int images = 0;
    for (const auto& task : tasks) {
      FOVEA_CHECK(task->shape_key() == shape_key_);
      pixels_.Copy(task->pixels(), to.narrow(0, images, task->images()));
      images += task->images();
      for (int image = 0; image < task->images(); ++image) {
        const ImageTransform seen = task->transform(image, {height, width});
        contents_.push_back({seen.height, seen.width});
      }
    }
    return images;
  }

  void ClearInput() override {
    staging_.zero_();
    contents_.clear();
    gathered_bytes_ = takes_bytes_;
  }

  Pass MakeReady(const BatchSize& batch, models::ForwardContext& context) override {
    // What the first pass of a size builds, and what it holds, is not captured.
    Pass pass = RunInput(batch, batch.images, nullptr, context);
    const std::pair key(batch.shape_key, batch.images);
    if (pass.outputs.empty() || !model_.info().replayable || captured_.contains(key)) return pass;
    Captured& captured = captured_[key];
    captured.peak_bytes = pass.peak_bytes;
    captured.graph = stream_->Capture([this, &captured, input = Input(batch.images)] {
      models::ForwardContext neutral;
      captured.outputs = model_.RunBatch(input, neutral);
    });
    return pass;
  }

  Pass Run(const BatchSize& batch, models::ForwardContext& context) override {
    const auto captured = captured_.lower_bound({batch.shape_key, batch.images});
    const bool found = captured != captured_.end() && captured->first.first == batch.shape_key;
    return RunInput(batch, found ? captured->first.second : batch.images,
                    found ? &captured->second : nullptr, context);
  }

 private:
  struct Captured {
    std::unique_ptr<GpuGraph> graph;
    std::vector<at::Tensor> outputs;
    int64_t peak_bytes = 0;
  };

  static at::Tensor PerChannel(const std::array<float, 3>& numbers) {
    return at::tensor(c10::ArrayRef<float>(numbers.data(), numbers.size())).view({1, 3, 1, 1});
  }

  models::ImageSize Size() const { return model_.info().sizes().at(shape_key_); }

  // The first `images` of a buffer of bytes, or of normalised numbers.
  at::Tensor AsBytes(const at::Tensor& buffer, int images) const {
    const auto [height, width] = Size();
    return buffer.narrow(0, 0, images * height * width * 3).view({images, height, width, 3});
  }
  at::Tensor AsNumbers(const at::Tensor& buffer, int images) const {
    const auto [height, width] = Size();
    return buffer.narrow(0, 0, images * height * width * 3).view({images, 3, height, width});
  }
  at::Tensor Staging(int images) const {
    return gathered_bytes_ ? AsBytes(staging_, images)
                           : AsNumbers(staging_.view(at::kFloat), images);
  }
  // What the model reads.
  at::Tensor Input(int images) const {
    return takes_bytes_ ? AsBytes(bytes_, images) : AsNumbers(normalised_, images);
  }

  // Runs `images` of the input, of which batch.images are a caller's: as `captured`, if that is
  // not null.
  Pass RunInput(const BatchSize& batch, int images, const Captured* captured,
                models::ForwardContext& context) {
    shape_key_ = batch.shape_key;
    Pass pass;
    if (context.ShouldStop()) return pass;
    std::vector<at::Tensor> outputs;  // on the GPU
    // What fails leaves work behind that still reads the staging, and writes here.
    const absl::Cleanup await = [this] { stream_->AwaitIgnoringErrors(); };
    stream_->Mark(GpuMark::kBegin);
    stream_->Enqueue([&] { CopyIn(batch.images); });
    stream_->Mark(GpuMark::kCopiedIn);
    stream_->Enqueue([&] { Normalise(batch.images); });
    if (captured != nullptr) {
      stream_->Replay(*captured->graph);
      pass.peak_bytes = captured->peak_bytes;
    } else {
      stream_->Enqueue([&] {
        kernels::MemoryLedger ledger;
        const at::Tensor input = Input(images);
        outputs = model_.RunBatch(input, context);
        pass.peak_bytes = ledger.peak_bytes() + static_cast<int64_t>(input.nbytes());
      });
    }
    stream_->Mark(GpuMark::kComputed);
    stream_->Enqueue([&] {
      for (const at::Tensor& output : captured != nullptr ? captured->outputs : outputs) {
        pass.outputs.push_back(CopyOut(output.narrow(0, 0, batch.images)));
      }
    });
    stream_->Mark(GpuMark::kCopiedOut);
    stream_->Await();
    pass.device_times =
        DeviceTimes{.h2d = stream_->Between(GpuMark::kBegin, GpuMark::kCopiedIn),
                    .kernels = stream_->Between(GpuMark::kCopiedIn, GpuMark::kComputed),
                    .d2h = stream_->Between(GpuMark::kComputed, GpuMark::kCopiedOut)};
    return pass;
  }

  void CopyIn(int images) {
    const at::Tensor to =
        gathered_bytes_ ? AsBytes(bytes_, images) : AsNumbers(normalised_, images);
    to.copy_(Staging(images), /*non_blocking=*/true);
  }

  void Normalise(int images) {
    if (takes_bytes_ || !gathered_bytes_) return;
    at::Tensor to = AsNumbers(normalised_, images);
    at::mul_out(to, AsBytes(bytes_, images).permute({0, 3, 1, 2}), scale_).add_(offset_);
    // What a picture does not fill is zero behind the normalisation, not before it.
    const auto [height, width] = Size();
    for (size_t image = 0; image < contents_.size(); ++image) {
      const auto [filled_height, filled_width] = contents_[image];
      if (filled_height < height) to[image].slice(1, filled_height).zero_();
      if (filled_width < width) to[image].slice(2, filled_width).zero_();
    }
  }

  at::Tensor CopyOut(const at::Tensor& output) const {
    const at::Tensor to = gpu_.HostBuffer(output.sizes(), output.scalar_type());
    to.copy_(output, /*non_blocking=*/true);
    return to;
  }

  const models::Model& model_;
  const Gpu& gpu_;
  const PixelCopy pixels_;
  const int max_batch_size_;
  const bool takes_bytes_;
  int64_t most_pixels_ = 0;
  const std::unique_ptr<GpuStream> stream_;
  at::Tensor staging_;                       // bytes of the host, for pixels of either kind
  at::Tensor bytes_, normalised_;            // of the GPU
  at::Tensor scale_, offset_;                // of the normalisation
  uint64_t shape_key_ = 0;                   // of what was gathered last
  bool gathered_bytes_ = false;              // the staging holds bytes
  std::vector<models::ImageSize> contents_;  // of each image gathered
  std::map<std::pair<uint64_t, int>, Captured> captured_;  // by shape key and images
};

class GpuDevice final : public LaneDevice {
 public:
  explicit GpuDevice(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) {}

  std::string_view name() const override { return "GPU"; }

  absl::Status Prepare(models::Model& model, models::Precision precision) override {
    // As they were loaded they come, whatever the precision leaves of them.
    FOVEA_RETURN_IF_ERROR(HoldWeights(model));
    model.Prepare(gpu_->device(), precision);
    return HoldWeights(model);
  }

  std::unique_ptr<Lane> MakeLane(const models::Model& model,
                                 const models::Preprocessing& preprocessing,
                                 int max_batch_size) const override {
    return std::make_unique<GpuLane>(model, preprocessing, max_batch_size, *gpu_);
  }

  std::vector<int> WarmUpSizes(int max_batch_size) const override {
    return BatchBuckets(max_batch_size);
  }
  bool WarmsUpEachLane() const override { return true; }

  int Concurrent(int lanes) const override { return lanes; }
  Room SetAside(int64_t bytes) override {
    const int64_t left = std::min(Left(), gpu_->AvailableMemory().value_or(Left()));
    if (bytes > left || !set_aside_.TryGrow(bytes)) return {.fits = false, .available = left};
    return {};
  }

  void EnterThread() const override { threads_.Enter(); }
  void LeaveThread() const override { IntraOpThreads::Leave(); }

 private:
  static constexpr int kThreads[] = {1};

  absl::Status HoldWeights(const models::Model& model) {
    const int64_t bytes = model.weight_bytes();
    set_aside_.ShrinkTo(bytes);
    if (set_aside_.TryGrow(bytes - set_aside_.bytes())) return absl::OkStatus();
    return FailedPrecondition(
        "model.too_large",
        absl::StrFormat("the weights take %.1f MiB, and %s has %.1f MiB left for models "
                        "(--max-gpu-bytes)",
                        std::ldexp(bytes, -20), gpu_->name(), std::ldexp(Left(), -20)));
  }
  int64_t Left() const { return gpu_->budget().capacity() - gpu_->budget().held(); }

  const std::shared_ptr<const Gpu> gpu_;
  MemoryBudget::Hold set_aside_ = gpu_->budget().Open();
  const IntraOpThreads threads_{kThreads, 1};
};

}  // namespace

std::vector<int> BatchBuckets(int max_batch_size) {
  std::vector<int> buckets = {max_batch_size};
  int power = 1;
  while (power < max_batch_size) power *= 2;
  for (power /= 2; power >= 1; power /= 2) buckets.push_back(power);
  return buckets;
}

std::unique_ptr<LaneDevice> MakeGpuDevice(std::shared_ptr<const Gpu> gpu) {
  return std::make_unique<GpuDevice>(std::move(gpu));
}

}  // namespace fovea
