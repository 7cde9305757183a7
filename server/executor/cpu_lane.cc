#include "server/executor/cpu_lane.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/check.h"
#include "kernels/memory/memory_ledger.h"
#include "model_zoo/model.h"
#include "server/executor/intra_op_threads.h"
#include "server/executor/normalise.h"

namespace fovea {
namespace {

// The input buffer is kept from batch to batch: allocating it anew would fault its pages in every
// time.
class CpuLane final : public Lane {
 public:
  CpuLane(const models::Model& model, const models::Preprocessing& preprocessing,
          int max_batch_size, const IntraOpThreads& intra_op_threads)
      : model_(model),
        intra_op_threads_(intra_op_threads),
        normalisation_(Normalisation::From(preprocessing.mean, preprocessing.std)),
        buffer_(Buffer(model.info(), max_batch_size)),
        inputs_(Inputs(model.info(), max_batch_size, buffer_)) {}

  int Gather(std::span<const std::unique_ptr<InferenceTask>> tasks) override {
    const uint64_t shape_key = tasks.front()->shape_key();
    const at::Tensor& input = inputs_.at(shape_key);
    int images = 0;
    for (const auto& task : tasks) {
      FOVEA_CHECK(task->shape_key() == shape_key);
      const at::Tensor to = input.narrow(0, images, task->images());
      std::visit([&](const auto& pixels) { Copy(pixels, to); }, task->pixels());
      images += task->images();
    }
    return images;
  }

  void ClearInput() override { buffer_.zero_(); }

  Pass Run(const BatchSize& batch, models::ForwardContext& context) override {
    const at::Tensor input = inputs_.at(batch.shape_key).narrow(0, 0, batch.images);
    intra_op_threads_.Begin(batch.threads);
    const absl::Cleanup end = [&] { intra_op_threads_.End(batch.threads); };
    kernels::MemoryLedger ledger;
    Pass pass{.outputs = model_.RunBatch(input, context)};
    pass.peak_bytes = ledger.peak_bytes() + static_cast<int64_t>(input.nbytes());
    return pass;
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

  // Into `to`, the images of one task: [images, 3, height, width] or [images, height, width, 3].
  void Copy(const ReceivedPixels& received, const at::Tensor& to) {
    if (received.normalised == (to.scalar_type() == at::kFloat)) {
      FOVEA_CHECK(received.data.size() == to.nbytes());
      received.data.CopyTo(0, received.data.size(), to.mutable_data_ptr());
      return;
    }
    FOVEA_CHECK(!received.normalised);
    // A pixel may lie across two slices: its bytes are brought together first.
    std::vector<std::byte> storage;
    const ScatteredBytes::Piece rgb = received.data.Contiguous(&storage);
    Normalise(reinterpret_cast<const uint8_t*>(rgb.data()), rgb.size(), to);
  }

  void Copy(const DecodedPixels& decoded, const at::Tensor& to) {
    FOVEA_CHECK(static_cast<int64_t>(decoded.images.size()) == to.size(0));
    for (int64_t i = 0; i < to.size(0); ++i) Copy(decoded.images[i], to[i]);
  }

  // Into `to`, one image: [3, height, width] or [height, width, 3]. What it does not fill is zero.
  void Copy(const ResizedImage& image, const at::Tensor& to) {
    const int64_t height = image.transform.height, width = image.transform.width;
    const bool bytes = to.scalar_type() == at::kByte;
    const int64_t room_height = to.size(bytes ? 0 : 1), room_width = to.size(bytes ? 1 : 2);
    FOVEA_CHECK(static_cast<int64_t>(image.rgb.size()) == 3 * height * width);
    FOVEA_CHECK(height <= room_height && width <= room_width);
    if (height < room_height || width < room_width) {
      std::memset(to.mutable_data_ptr(), 0, to.nbytes());
    }
    if (bytes) {
      auto* row = to.mutable_data_ptr<uint8_t>();
      for (int64_t y = 0; y < height; ++y, row += 3 * room_width) {
        std::memcpy(row, image.rgb.data() + 3 * width * y, 3 * width);
      }
      return;
    }
    const RowPitch pitch{.row = room_width, .plane = room_height * room_width};
    NormaliseImage(image.rgb.data(), height, width, normalisation_, to.mutable_data_ptr<float>(),
                   pitch);
  }

  void Normalise(const uint8_t* rgb, size_t size, const at::Tensor& to) {
    FOVEA_CHECK(size == static_cast<size_t>(to.numel()));
    const int64_t height = to.size(2), width = to.size(3), pixels = height * width;
    for (int64_t image = 0; image < to.size(0); ++image) {
      NormaliseImage(rgb + image * pixels * 3, height, width, normalisation_,
                     to.mutable_data_ptr<float>() + image * pixels * 3,
                     {.row = width, .plane = pixels});
    }
  }

  const models::Model& model_;
  const IntraOpThreads& intra_op_threads_;
  const Normalisation normalisation_;
  const at::Tensor buffer_;
  const std::vector<at::Tensor> inputs_;  // by shape key, in the buffer
};

class CpuDevice final : public LaneDevice {
 public:
  explicit CpuDevice(const CpuLaneOptions& options)
      : options_(options), intra_op_threads_(options.threads_per_batch, options.lanes) {}

  std::string_view name() const override { return "CPU"; }

  void Prepare(models::Model& model, models::Precision precision) const override {
    model.Prepare(at::kCPU, precision);
  }

  std::unique_ptr<Lane> MakeLane(const models::Model& model,
                                 const models::Preprocessing& preprocessing,
                                 int max_batch_size) const override {
    return std::make_unique<CpuLane>(model, preprocessing, max_batch_size, intra_op_threads_);
  }

  int Concurrent(int lanes) const override {
    return std::clamp(options_.threads / options_.threads_per_batch.front(), 1, lanes);
  }

  std::optional<int64_t> AvailableMemory() const override {
    return options_.available_memory ? options_.available_memory() : std::nullopt;
  }

  void EnterThread() const override { intra_op_threads_.Enter(); }
  void IdleThread() const override { intra_op_threads_.Idle(); }
  void LeaveThread() const override { IntraOpThreads::Leave(); }

 private:
  const CpuLaneOptions options_;
  const IntraOpThreads intra_op_threads_;
};

}  // namespace

std::unique_ptr<LaneDevice> MakeCpuDevice(const CpuLaneOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace fovea
