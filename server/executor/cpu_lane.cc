#include "server/executor/cpu_lane.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <utility>

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
          int max_batch_size)
      : model_(model),
        pixels_per_image_(model.info().image_height * model.info().image_width),
        normalisation_(Normalisation::From(preprocessing.mean, preprocessing.std)),
        input_(Buffer(model.info(), max_batch_size)) {}

  int Gather(std::span<const std::unique_ptr<InferenceTask>> tasks) override {
    int at = 0;
    for (const auto& task : tasks) {
      std::visit([&](const auto& pixels) { Copy(pixels, at, task->images()); }, task->pixels());
      at += task->images();
    }
    return at;
  }

  Pass Run(int images, models::ForwardContext& context) override {
    const at::Tensor input = input_.narrow(0, 0, images);
    kernels::MemoryLedger ledger;
    Pass pass{.outputs = model_.Run(input, context)};
    pass.peak_bytes = ledger.peak_bytes() + static_cast<int64_t>(input.nbytes());
    return pass;
  }

 private:
  static at::Tensor Buffer(const models::ModelInfo& info, int images) {
    if (info.pixel_input == models::PixelInput::kBytes) {
      return at::zeros({images, info.image_height, info.image_width, 3}, at::kByte);
    }
    return at::zeros({images, 3, info.image_height, info.image_width}, at::kFloat);
  }

  void Copy(const ReceivedPixels& received, int64_t at, int images) {
    at::Tensor to = input_.narrow(0, at, images);
    if (received.normalised == (input_.scalar_type() == at::kFloat)) {
      FOVEA_CHECK(received.data.size() == to.nbytes());
      received.data.CopyTo(0, received.data.size(), to.mutable_data_ptr());
      return;
    }
    FOVEA_CHECK(!received.normalised);
    // A pixel may lie across two slices: its bytes are brought together first.
    std::vector<std::byte> storage;
    const ScatteredBytes::Piece rgb = received.data.Contiguous(&storage);
    Normalise(reinterpret_cast<const uint8_t*>(rgb.data()), rgb.size(), at, images);
  }

  void Copy(const DecodedPixels& decoded, int64_t at, int images) {
    if (input_.scalar_type() == at::kByte) {
      at::Tensor to = input_.narrow(0, at, images);
      FOVEA_CHECK(decoded.rgb.size() == to.nbytes());
      std::memcpy(to.mutable_data_ptr(), decoded.rgb.data(), decoded.rgb.size());
      return;
    }
    Normalise(decoded.rgb.data(), decoded.rgb.size(), at, images);
  }

  void Normalise(const uint8_t* rgb, size_t size, int64_t at, int images) {
    const size_t image_numbers = static_cast<size_t>(pixels_per_image_) * 3;
    FOVEA_CHECK(size == image_numbers * images);
    for (int image = 0; image < images; ++image) {
      NormaliseImage(rgb + image * image_numbers, pixels_per_image_, normalisation_,
                     input_.mutable_data_ptr<float>() + (at + image) * image_numbers);
    }
  }

  const models::Model& model_;
  const int64_t pixels_per_image_;
  const Normalisation normalisation_;
  at::Tensor input_;
};

class CpuDevice final : public LaneDevice {
 public:
  explicit CpuDevice(const CpuLaneOptions& options)
      : options_(options), intra_op_threads_(options.threads_per_lane, options.instances) {}

  std::string_view name() const override { return "CPU"; }

  void Prepare(models::Model& model, models::Precision precision) const override {
    model.Prepare(at::kCPU, precision);
  }

  std::unique_ptr<Lane> MakeLane(const models::Model& model,
                                 const models::Preprocessing& preprocessing,
                                 int max_batch_size) const override {
    return std::make_unique<CpuLane>(model, preprocessing, max_batch_size);
  }

  int Concurrent(int lanes) const override {
    return std::clamp(options_.threads / options_.threads_per_lane, 1, lanes);
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
