// BatchExecutor, until it is ready: the model is loaded, tried, measured and warmed up.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <ranges>
#include <span>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "kernels/memory/cpu_allocator.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"
#include "server/executor/batch_executor.h"
#include "server/executor/finite.h"
#include "server/executor/output_type.h"
#include "server/executor/torch_status.h"

namespace fovea {
namespace {

// Stops a pass of the warm-up when the load is not wanted any more. What it holds is what a batch
// may hold.
class LoadContext final : public models::ForwardContext {
 public:
  LoadContext(CancellationPtr cancellation, Nanos give_up_at, Clock& clock)
      : cancellation_(std::move(cancellation)), give_up_at_(give_up_at), clock_(clock) {}
  bool ShouldStop() override {
    return (cancellation_ != nullptr && cancellation_->Cancelled()) ||
           (give_up_at_ != kNever && clock_.Now() >= give_up_at_);
  }
  bool Fullest() const override { return true; }

 private:
  const CancellationPtr cancellation_;
  const Nanos give_up_at_;
  Clock& clock_;
};

// Most models of the zoo warm up in a fraction of this. Detectors of 13 sizes, and segmenters with
// batches of 16, would take minutes to run every batch. Models that load together share it. What
// has not run by then runs when a request needs it; that first pass is only a little slower than
// later ones.
constexpr Nanos kWarmUpTime = 4 * kSecond;

absl::Status LoadStopped() { return Unavailable("model.load_stopped", "loading was stopped"); }

// What a pass over a plain picture gave: numbers, or the model answers nobody. Thresholds would
// hide that from the callers of a detector, who would read that nothing is found.
absl::Status CheckAnswer(std::span<const at::Tensor> outputs, const models::ImageSize& size) {
  for (const at::Tensor& output : outputs) {
    if (output.scalar_type() == at::kFloat && !AllFinite(output)) {
      return FailedPrecondition(
          "model.self_test_failed",
          absl::StrCat("the model answers NaN or an infinity for a plain picture of ",
                       ImageSizeText({size.height, size.width}),
                       ": its weights are broken, or too large for ", "its precision"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<models::Model>> Load(const BatchExecutorOptions& options,
                                                    LaneDevice& device) {
  std::unique_ptr<models::Model> model;
  absl::Status prepared;
  absl::Status loaded = RunTorchLoad("model.load_failed", [&] {
    device.EnterThread();
    const absl::Cleanup leave = [&] { device.LeaveThread(); };
    model = models::LoadModel(options.model);
    prepared = device.Prepare(*model, options.model.precision);
  });
  FOVEA_RETURN_IF_ERROR(TellIfLost(std::move(loaded), options.on_device_lost));
  FOVEA_RETURN_IF_ERROR(TellIfLost(std::move(prepared), options.on_device_lost));
  return model;
}

int64_t BytesOf(std::span<const at::Tensor> tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace

// Time left for the warm-up, and a forecast of the next pass from the last one.
class BatchExecutor::WarmUpTime {
 public:
  // `until`: end of the warm-up; kNever: every batch is run.
  WarmUpTime(Nanos until, Clock& clock) : until_(until), clock_(clock) {}

  bool Over() const { return clock_.Now() >= until_; }
  // `pixels`: of one image of the batch's shape.
  bool IsEnoughFor(const BatchSize& batch, int64_t pixels) const {
    if (until_ == kNever) return true;
    return clock_.Now() + static_cast<Nanos>(nanos_per_work_ * Work(batch, pixels)) <= until_;
  }
  // Calls `run`, a pass of the batch, and returns what it took.
  template <typename Run>
  Nanos Measure(const BatchSize& batch, int64_t pixels, Run run) {
    const Nanos start = clock_.Now();
    run();
    const Nanos took = clock_.Now() - start;
    nanos_per_work_ = static_cast<double>(took) / Work(batch, pixels);
    return took;
  }

 private:
  static double Work(const BatchSize& batch, int64_t pixels) {
    return static_cast<double>(batch.images) * static_cast<double>(pixels) / batch.threads;
  }

  const Nanos until_;
  Clock& clock_;
  double nanos_per_work_ = 0;
};

absl::StatusOr<models::ModelInfo> BatchExecutor::TryLoad(const BatchExecutorOptions& options,
                                                         LaneDevice& device) {
  FOVEA_ASSIGN_OR_RETURN(const std::unique_ptr<models::Model> model, Load(options, device));
  return model->info();
}

absl::StatusOr<std::unique_ptr<BatchExecutor>> BatchExecutor::Create(
    const BatchExecutorOptions& options, std::unique_ptr<LaneDevice> device, Clock& clock,
    const WarmUpProgress& progress) {
  FOVEA_ASSIGN_OR_RETURN(std::unique_ptr<models::Model> model, Load(options, *device));
  return CreateWithModel(std::move(model), options, std::move(device), clock, progress);
}

absl::StatusOr<std::unique_ptr<BatchExecutor>> BatchExecutor::CreateWithModel(
    std::unique_ptr<models::Model> model, const BatchExecutorOptions& options,
    std::unique_ptr<LaneDevice> device, Clock& clock, const WarmUpProgress& progress) {
  FOVEA_CHECK(options.max_batch_size >= 1 && options.arrangement.lanes >= 1);
  std::unique_ptr<BatchExecutor> executor(
      new BatchExecutor(std::move(model), options, std::move(device), clock));
  FOVEA_RETURN_IF_ERROR(TellIfLost(executor->WarmUp(progress), options.on_device_lost));
  return executor;
}

int64_t BatchExecutor::DescribedBytes() const {
  if (!info().finishes) return 0;  // a pass gives the outputs themselves
  int64_t bytes = 0;
  for (const models::ModelInfo::Output& output : info().outputs) {
    const auto element = static_cast<int64_t>(ElementSize(OutputType(output)));
    bytes += std::accumulate(output.shape.begin(), output.shape.end(), element,
                             [](int64_t a, int64_t b) { return a * std::max<int64_t>(b, 1); });
  }
  return bytes;
}

// `input_bytes` and `pass_bytes`: of one image, its pixels and what a pass holds at most.
absl::Status BatchExecutor::CheckMemory(int64_t input_bytes, int64_t pass_bytes) {
  const AllowedThreads allowed = allowed_threads();
  const int lanes = options_.arrangement.lanes;
  // In many small batches, or in one on all threads: rounding decides which are more.
  const int64_t at_once = std::max(device_->Concurrent(lanes) * allowed.MaxImages(allowed.fewest()),
                                   allowed.MaxImages(allowed.most()));
  int64_t needed = at_once * pass_bytes;
  for (int lane = 0; lane < lanes; ++lane) {
    needed += allowed.MaxImagesOfInstance(lane) * input_bytes;
  }
  const LaneDevice::Room room = device_->SetAside(needed);
  if (room.fits) return absl::OkStatus();
  const bool divided = allowed.fewest() < allowed.most();
  return FailedPrecondition(
      "model.too_large",
      absl::StrFormat("batches of %d in %d instances need about %.1f GiB of memory, and %.1f GiB "
                      "are free: lower max_batch_size%s",
                      options_.max_batch_size, divided ? 1 : lanes, std::ldexp(needed, -30),
                      std::ldexp(room.available, -30),
                      divided ? ", or set instance_group.count: 1" : " or instance_group.count"));
}

int64_t BatchExecutor::InputBytesPerImage(const models::ImageSize& size) const {
  const bool bytes = info().pixel_input == models::PixelInput::kBytes;
  return 3 * size.height * size.width * (bytes ? 1 : int64_t{sizeof(float)});
}

absl::StatusOr<std::vector<uint64_t>> BatchExecutor::ProbeSizes(models::ForwardContext& context,
                                                                WarmUpTime& time, Nanos& own_pass) {
  const std::vector<models::ImageSize> sizes = info().sizes();
  device_bytes_.resize(sizes.size());
  const std::unique_ptr<Lane> probe = device_->MakeLane(*model_, preprocessing_, 1);
  probe->ClearInput();
  std::vector<uint64_t> largest_first(sizes.size());
  std::iota(largest_first.begin(), largest_first.end(), 0);
  std::ranges::stable_sort(largest_first, std::greater(), [&](uint64_t shape_key) {
    return sizes[shape_key].height * sizes[shape_key].width;
  });
  std::vector<uint64_t> run;
  int64_t pass_bytes = 0;
  for (const uint64_t shape_key : largest_first) {
    // Sizes smaller than one that fits also fit. The model's own size always runs, because its
    // answer is checked.
    if (!run.empty() && shape_key != 0 && time.Over()) {
      device_bytes_[shape_key] = device_bytes_[run.back()];
      run.push_back(shape_key);
      continue;
    }
    const BatchSize one{.shape_key = shape_key, .threads = allowed_threads().most()};
    Lane::Pass pass;
    const Nanos took =
        time.Measure(one, PixelsOf(shape_key), [&] { pass = probe->Run(one, context); });
    FOVEA_RETURN_IF_ERROR(CheckAnswer(pass.outputs, sizes[shape_key]));
    output_bytes_ = std::max(output_bytes_, BytesOf(pass.outputs) + DescribedBytes());
    device_bytes_[shape_key] = model_->weight_bytes() + options_.max_batch_size * pass.peak_bytes;
    if (device_bytes_[shape_key] > options_.max_device_bytes) continue;
    run.push_back(shape_key);
    if (shape_key == 0) own_pass = took;
    pass_bytes = std::max(pass_bytes, pass.peak_bytes - InputBytesPerImage(sizes[shape_key]));
  }
  if (run.empty()) {
    return FailedPrecondition(
        "model.too_large",
        absl::StrFormat("the model and a batch of %d hold more than the %.1f MiB that a model "
                        "may hold on its device (--max-device-bytes)",
                        options_.max_batch_size, std::ldexp(options_.max_device_bytes, -20)));
  }
  FOVEA_RETURN_IF_ERROR(CheckMemory(InputBytesPerImage(sizes[run.front()]), pass_bytes));
  std::ranges::stable_partition(run, [](uint64_t shape_key) { return shape_key == 0; });
  return run;
}

absl::Status BatchExecutor::WarmUp(const WarmUpProgress& progress) {
  LoadContext context(options_.cancellation, options_.give_up_at, clock_);
  std::unique_ptr<Turn::Taken> turn;
  const auto doing = [&](std::string what) {
    if (options_.on_progress) options_.on_progress(std::move(what));
  };
  if (options_.warm_up_turn != nullptr) {
    doing("loaded; waits for another model to warm up");
    turn = options_.warm_up_turn->Await([&] { return context.ShouldStop(); }, clock_);
    if (turn == nullptr) return LoadStopped();
  }
  absl::Status probed;
  FOVEA_RETURN_IF_ERROR(RunTorch("model.warm_up_failed", [&] {
    device_->EnterThread();
    const absl::Cleanup leave = [&] { device_->LeaveThread(); };
    const Nanos warm_up_time = kWarmUpTime / options_.loads_together;
    doing(absl::StrFormat("warms up, until %.1f s have passed or the first sizes have run",
                          static_cast<double>(warm_up_time) / kSecond));
    const bool every_batch = options_.only_full_batches || device_->WarmsUpEachLane();
    WarmUpTime time(every_batch ? kNever : clock_.Now() + warm_up_time, clock_);
    Nanos own_pass = 0;
    const absl::StatusOr<std::vector<uint64_t>> shape_keys = ProbeSizes(context, time, own_pass);
    probed = shape_keys.status();
    if (!probed.ok()) return;
    for (int lane = 0; lane < options_.arrangement.lanes; ++lane) {
      lanes_.push_back(
          device_->MakeLane(*model_, preprocessing_, allowed_threads().MaxImagesOfInstance(lane)));
    }
    for (const auto& lane : WarmedUpLanes()) lane->ClearInput();
    const BatchSize own{.shape_key = 0, .threads = allowed_threads().most()};
    bool own_is_measured = false;
    const WarmUpProgress heard = [&](const BatchSize& batch, Nanos took) {
      own_is_measured |= batch.shape_key == own.shape_key && batch.images == own.images &&
                         batch.threads == own.threads;
      if (progress) progress(batch, took);
    };
    for (const uint64_t shape_key : *shape_keys) {
      WarmUpShape(shape_key, context, time, heard);
      peak_activation_bytes_ =
          std::max(peak_activation_bytes_, device_bytes_[shape_key] - model_->weight_bytes());
    }
    // Falls back on the first pass, which is slower than later ones: by little, where there was no
    // time for a second.
    if (!own_is_measured && own_pass > 0) heard(own, own_pass);
    kernels::GiveFreeMemoryBack();  // of the file, of unpacked weights, of captured passes
  }));
  FOVEA_RETURN_IF_ERROR(probed);
  return context.ShouldStop() ? LoadStopped() : absl::OkStatus();
}

std::span<const std::unique_ptr<Lane>> BatchExecutor::WarmedUpLanes() const {
  // The input of one that is not stays untouched: it takes no memory yet.
  return std::span(lanes_).first(device_->WarmsUpEachLane() ? lanes_.size() : 1);
}

int64_t BatchExecutor::PixelsOf(uint64_t shape_key) const {
  const models::ImageSize size = info().sizes()[shape_key];
  return size.height * size.width;
}

void BatchExecutor::WarmUpShape(uint64_t shape_key, models::ForwardContext& context,
                                WarmUpTime& time, const WarmUpProgress& progress) {
  const int64_t pixels = PixelsOf(shape_key);
  int64_t peak = 0;
  bool full = true;  // the largest batches have run
  for (const int threads : std::views::reverse(options_.arrangement.threads_per_batch)) {
    // The first pass of a batch size builds what later ones use, and takes longer. So sizes whose
    // time is needed get a second pass, if there is time for it. The latency curve needs only sizes
    // that double.
    const int most = allowed_threads().MaxImages(threads);
    int next_timed = most;
    for (const int images :
         options_.only_full_batches ? std::vector{most} : device_->WarmUpSizes(most)) {
      const BatchSize batch{.images = images, .shape_key = shape_key, .threads = threads};
      if (!time.IsEnoughFor(batch, pixels)) {
        full &= images != most;
        continue;
      }
      Nanos took = 0;
      for (const auto& lane : WarmedUpLanes()) {
        took = time.Measure(batch, pixels, [&] {
          peak = std::max(peak, lane->MakeReady(batch, context).peak_bytes);
        });
        if (context.ShouldStop()) return;
      }
      if (images > next_timed) continue;
      next_timed = images / 2;
      if (time.IsEnoughFor(batch, pixels)) {
        took = time.Measure(batch, pixels, [&] { lanes_[0]->Run(batch, context); });
      }
      progress(batch, took);
    }
  }
  if (full) device_bytes_[shape_key] = model_->weight_bytes() + peak;
}

}  // namespace fovea
