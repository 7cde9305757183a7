#include "server/quantize/speeds.h"

#include <ATen/ATen.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/statistics.h"
#include "kernels/memory/pass_arena.h"
#include "model_zoo/forward_context.h"

namespace fovea {
namespace {

constexpr int kPasses = 15;
// The first makes what later ones use, and the second is the first that runs by the arena's plan.
constexpr int kWarmUps = 2;

class TimedModel {
 public:
  explicit TimedModel(const models::Model& model) : model_(model) {}

  void Run(const at::Tensor& pixels) {
    models::ForwardContext context;
    const auto begin = std::chrono::steady_clock::now();
    {
      kernels::PassArena::Scope scope(arena_, pixels);
      const std::vector<at::Tensor> outputs = model_.RunBatch(pixels, context);
      scope.Complete();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (warm_ups_ < kWarmUps) {
      ++warm_ups_;
    } else {
      seconds_.push_back(took.count());
    }
  }
  double MedianSeconds() const { return QuartilesOf(seconds_).median; }

 private:
  const models::Model& model_;
  kernels::PassArena arena_;
  int warm_ups_ = 0;
  std::vector<double> seconds_;
};

}  // namespace

Speeds MeasureSpeeds(const models::Model& fp32, const models::Model& other, int64_t batch) {
  const models::ModelInfo& info = fp32.info();
  const at::Tensor pixels =
      info.pixel_input == models::PixelInput::kBytes
          ? at::randint(256, {batch, info.image_height, info.image_width, 3}, at::kByte)
          : at::randn({batch, 3, info.image_height, info.image_width});
  TimedModel of_fp32(fp32), of_other(other);
  for (int pass = 0; pass < kWarmUps + kPasses; ++pass) {
    of_fp32.Run(pixels);
    of_other.Run(pixels);
  }
  const auto images = static_cast<double>(batch);
  return {.fp32 = images / of_fp32.MedianSeconds(), .other = images / of_other.MedianSeconds()};
}

}  // namespace fovea
