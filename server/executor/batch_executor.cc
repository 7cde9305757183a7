#include "server/executor/batch_executor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"
#include "server/executor/intra_op_threads.h"
#include "server/executor/output_type.h"
#include "server/executor/torch_status.h"

namespace fovea {
namespace {

constexpr std::string_view kNonFinite = "executor.non_finite_output";

ImageSize ToSize(const models::ImageSize& size) { return {size.height, size.width}; }

// How much of each image of `task` the model sees, at `input`.
std::vector<models::ImageSize> ContentsOf(const InferenceTask& task,
                                          const models::ImageSize& input) {
  std::vector<models::ImageSize> contents;
  for (int image = 0; image < task.images(); ++image) {
    const ImageTransform seen = task.transform(image, ToSize(input));
    contents.push_back({seen.height, seen.width});
  }
  return contents;
}

// Stops a pass when every caller of the batch has gone; knows where its images end.
class BatchContext final : public models::ForwardContext {
 public:
  BatchContext(std::span<const std::unique_ptr<InferenceTask>> tasks,
               const models::ImageSize& input)
      : tasks_(tasks) {
    for (const auto& task : tasks) {
      const std::vector<models::ImageSize> more = ContentsOf(*task, input);
      contents_.insert(contents_.end(), more.begin(), more.end());
    }
  }

  bool ShouldStop() override {
    return std::all_of(tasks_.begin(), tasks_.end(),
                       [](const auto& task) { return task->Cancelled(); });
  }

  models::ImageSize Content(int64_t image, const models::ImageSize& /*input*/) const override {
    return contents_[image];
  }

  double padding(const models::ImageSize& input) const {
    return PaddingOf(contents_, input.height, input.width);
  }

 private:
  std::span<const std::unique_ptr<InferenceTask>> tasks_;
  std::vector<models::ImageSize> contents_;
};

// Stops a pass of the warm-up when the load is not wanted any more. What it holds is what a batch
// may hold.
class LoadContext final : public models::ForwardContext {
 public:
  explicit LoadContext(CancellationPtr cancellation) : cancellation_(std::move(cancellation)) {}
  bool ShouldStop() override { return cancellation_ != nullptr && cancellation_->Cancelled(); }
  bool Fullest() const override { return true; }

 private:
  const CancellationPtr cancellation_;
};

bool AllFinite(const at::Tensor& values) {
  // A sum is finite exactly when no NaN or infinity is in it, short of an overflow in double, which
  // floats cannot reach.
  const float* data = values.const_data_ptr<float>();
  return std::isfinite(std::accumulate(data, data + values.numel(), 0.0));
}

// What a pass over a plain picture gave: numbers, or the model answers nobody. Thresholds would
// hide that from the callers of a detector, who would read that nothing is found.
absl::Status CheckAnswer(std::span<const at::Tensor> outputs, const models::ImageSize& size) {
  for (const at::Tensor& output : outputs) {
    if (output.scalar_type() == at::kFloat && !AllFinite(output)) {
      return FailedPrecondition(
          "model.self_test_failed",
          absl::StrCat("the model answers NaN or an infinity for a plain picture of ",
                       ImageSizeText(ToSize(size)), ": its weights are broken, or too large for ",
                       "its precision"));
    }
  }
  return absl::OkStatus();
}

int64_t BytesOf(std::span<const at::Tensor> tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

std::string RawBytes(const at::Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
}

}  // namespace

absl::StatusOr<std::unique_ptr<BatchExecutor>> BatchExecutor::Create(
    const BatchExecutorOptions& options, std::unique_ptr<LaneDevice> device, Clock& clock,
    const WarmUpProgress& progress) {
  std::unique_ptr<models::Model> model;
  FOVEA_RETURN_IF_ERROR(RunTorchLoad("model.load_failed", [&] {
    device->EnterThread();
    const absl::Cleanup leave = [&] { device->LeaveThread(); };
    model = models::LoadModel(options.model);
    device->Prepare(*model, options.model.precision);
  }));
  return CreateWithModel(std::move(model), options, std::move(device), clock, progress);
}

absl::StatusOr<std::unique_ptr<BatchExecutor>> BatchExecutor::CreateWithModel(
    std::unique_ptr<models::Model> model, const BatchExecutorOptions& options,
    std::unique_ptr<LaneDevice> device, Clock& clock, const WarmUpProgress& progress) {
  FOVEA_CHECK(options.max_batch_size >= 1 && options.instances >= 1);
  std::unique_ptr<BatchExecutor> executor(
      new BatchExecutor(std::move(model), options, std::move(device), clock));
  FOVEA_RETURN_IF_ERROR(executor->WarmUp(progress));
  return executor;
}

BatchExecutor::BatchExecutor(std::unique_ptr<models::Model> model,
                             const BatchExecutorOptions& options,
                             std::unique_ptr<LaneDevice> device, Clock& clock)
    : model_(std::move(model)),
      options_(options),
      preprocessing_(options.preprocessing ? options.preprocessing(model_->info().preprocessing)
                                           : model_->info().preprocessing),
      device_(std::move(device)),
      clock_(clock) {}

BatchExecutor::~BatchExecutor() = default;

const models::ModelInfo& BatchExecutor::info() const { return model_->info(); }
int64_t BatchExecutor::weight_bytes() const { return model_->weight_bytes(); }
int64_t BatchExecutor::peak_activation_bytes() const { return peak_activation_bytes_; }

std::vector<int> WarmUpSizes(int max_batch_size) {
  constexpr int kEvery = 32;
  std::vector<int> sizes;
  for (int size = 1; size < max_batch_size; size += size < kEvery ? 1 : size / 8) {
    sizes.push_back(size);
  }
  sizes.push_back(max_batch_size);
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
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
absl::Status BatchExecutor::CheckMemory(int64_t input_bytes, int64_t pass_bytes) const {
  const std::optional<int64_t> available = device_->AvailableMemory();
  const int64_t needed =
      options_.max_batch_size *
      (options_.instances * input_bytes + device_->Concurrent(options_.instances) * pass_bytes);
  if (!available || needed <= *available) return absl::OkStatus();
  return FailedPrecondition(
      "model.too_large",
      absl::StrFormat(
          "batches of %d in %d instances need about %.1f GiB of memory, and %.1f GiB are "
          "free: lower max_batch_size or instance_group.count",
          options_.max_batch_size, options_.instances, std::ldexp(needed, -30),
          std::ldexp(*available, -30)));
}

int64_t BatchExecutor::InputBytesPerImage(const models::ImageSize& size) const {
  const bool bytes = info().pixel_input == models::PixelInput::kBytes;
  return 3 * size.height * size.width * (bytes ? 1 : int64_t{sizeof(float)});
}

absl::Status BatchExecutor::WarmUp(const WarmUpProgress& progress) {
  std::optional<MutexLock> turn;
  if (options_.warm_up_turn != nullptr) turn.emplace(*options_.warm_up_turn);
  LoadContext context(options_.cancellation);
  const std::vector<models::ImageSize> sizes = info().sizes();
  // The largest first, here and within a shape: the allocator's and oneDNN's buffers then serve the
  // smaller ones.
  std::vector<uint64_t> shape_keys(sizes.size());
  std::iota(shape_keys.begin(), shape_keys.end(), 0);
  std::ranges::stable_sort(shape_keys, std::greater(), [&](uint64_t shape_key) {
    return sizes[shape_key].height * sizes[shape_key].width;
  });
  absl::Status healthy, fits;
  FOVEA_RETURN_IF_ERROR(RunTorch("model.warm_up_failed", [&] {
    device_->EnterThread();
    const absl::Cleanup leave = [&] { device_->LeaveThread(); };
    const std::unique_ptr<Lane> probe = device_->MakeLane(*model_, preprocessing_, 1);
    int64_t pass_bytes = 0;
    device_bytes_.resize(sizes.size());
    std::erase_if(shape_keys, [&](uint64_t shape_key) {
      const Lane::Pass pass = probe->Run({.shape_key = shape_key}, context);
      if (healthy.ok()) healthy = CheckAnswer(pass.outputs, sizes[shape_key]);
      const int64_t peak = pass.peak_bytes;
      output_bytes_ = std::max(output_bytes_, BytesOf(pass.outputs) + DescribedBytes());
      device_bytes_[shape_key] = model_->weight_bytes() + options_.max_batch_size * peak;
      if (device_bytes_[shape_key] > options_.max_device_bytes) return true;
      pass_bytes = std::max(pass_bytes, peak - InputBytesPerImage(sizes[shape_key]));
      return false;
    });
    if (!healthy.ok()) return;
    if (shape_keys.empty()) {
      fits = FailedPrecondition(
          "model.too_large",
          absl::StrFormat("the model and a batch of %d hold more than the %.1f MiB that a model "
                          "may hold on its device (--max-device-bytes)",
                          options_.max_batch_size, std::ldexp(options_.max_device_bytes, -20)));
      return;
    }
    fits = CheckMemory(InputBytesPerImage(sizes[shape_keys.front()]), pass_bytes);
    if (!fits.ok()) return;
    for (int instance = 0; instance < options_.instances; ++instance) {
      lanes_.push_back(device_->MakeLane(*model_, preprocessing_, options_.max_batch_size));
    }
    for (const uint64_t shape_key : shape_keys) {
      const int64_t peak = WarmUpShape(shape_key, context, progress);
      device_bytes_[shape_key] = model_->weight_bytes() + peak;
      peak_activation_bytes_ = std::max(peak_activation_bytes_, peak);
    }
  }));
  FOVEA_RETURN_IF_ERROR(healthy);
  FOVEA_RETURN_IF_ERROR(fits);
  if (context.ShouldStop()) return Unavailable("model.load_stopped", "loading was stopped");
  return absl::OkStatus();
}

int64_t BatchExecutor::WarmUpShape(uint64_t shape_key, models::ForwardContext& context,
                                   const WarmUpProgress& progress) {
  // The first pass of a batch builds oneDNN's primitives for it, a few milliseconds each, and is
  // not what such batches will take: where the time is to be known, there is a second one. A
  // doubling of images is enough of them for the latency curve.
  int next_timed = options_.max_batch_size;
  int64_t peak = 0;
  for (const int images : WarmUpSizes(options_.max_batch_size)) {
    const BatchSize batch{.images = images, .shape_key = shape_key};
    peak = std::max(peak, lanes_[0]->Run(batch, context).peak_bytes);
    if (context.ShouldStop()) return peak;
    if (images > next_timed) continue;
    next_timed = images / 2;
    const Nanos start = clock_.Now();
    lanes_[0]->Run(batch, context);
    if (progress) progress(batch, clock_.Now() - start);
  }
  return peak;
}

RunOutcome BatchExecutor::Run(int instance, std::vector<std::unique_ptr<InferenceTask>> tasks,
                              ExecutionObserver* observer) {
  FOVEA_CHECK(instance >= 0 && static_cast<size_t>(instance) < lanes_.size());
  const Nanos now = clock_.Now();
  for (auto& task : tasks) task->request().stages.EndStage(Stage::kQueue, now);
  return RunTasks(*lanes_[instance], tasks, observer);
}

TaskOutputs BatchExecutor::Described(std::span<const at::Tensor> outputs) const {
  TaskOutputs described;
  for (size_t i = 0; i < outputs.size(); ++i) {
    FOVEA_CHECK(outputs[i].is_contiguous());
    OutputTensor& output = described.emplace_back();
    output.name = info().outputs[i].name;
    output.type = OutputType(info().outputs[i]);
    output.shape.assign(outputs[i].sizes().begin(), outputs[i].sizes().end());
    output.data = RawBytes(outputs[i]);
  }
  return described;
}

absl::StatusOr<TaskResult> BatchExecutor::ResultOf(std::span<const at::Tensor> outputs,
                                                   int64_t first, const InferenceTask& task) const {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& output : outputs) {
    rows.push_back(output.narrow(0, first, task.images()));
    if (rows.back().scalar_type() == at::kFloat && !AllFinite(rows.back())) {
      return Internal(kNonFinite, "the model's output is not a finite number");
    }
  }
  TaskResult result;
  if (!info().finishes) {
    result.outputs = Described(rows);
    return result;
  }
  const models::ImageSize input = info().sizes()[task.shape_key()];
  // The rows share the batch's memory with the others', which is small beside the images'.
  result.finish = [this, rows = std::move(rows), input,
                   contents = ContentsOf(task, input)]() mutable -> absl::StatusOr<TaskOutputs> {
    TaskOutputs outputs;
    FOVEA_RETURN_IF_ERROR(RunTorch("executor.failed", [&] {
      IntraOpThreads::UseOne();
      outputs = Described(model_->Finish(std::move(rows), input, contents));
    }));
    return outputs;
  };
  return result;
}

RunOutcome BatchExecutor::RunTasks(Lane& lane, std::span<std::unique_ptr<InferenceTask>> tasks,
                                   ExecutionObserver* observer) {
  ExecutionObserver::BatchRun run;
  std::vector<at::Tensor> outputs;
  bool stopped = false;
  const Nanos start = clock_.Now();
  Nanos gathered = start;
  const absl::Status status = RunTorch("executor.failed", [&] {
    const BatchSize batch = lane.Gather(tasks);
    run.images = batch.images;
    gathered = clock_.Now();
    const models::ImageSize input = info().sizes()[batch.shape_key];
    BatchContext context(tasks, input);
    run.padding = context.padding(input);
    Lane::Pass pass = lane.Run(batch, context);
    outputs = std::move(pass.outputs);
    stopped = outputs.empty();
    run.peak_bytes = pass.peak_bytes;
  });
  const Nanos computed = clock_.Now();
  run.gather = gathered - start;
  run.compute = computed - gathered;

  if (!status.ok() && tasks.size() > 1) {
    // One of them is to blame, or they are too many for the memory: halves tell, and the others
    // still get their answer.
    const size_t half = tasks.size() / 2;
    RunTasks(lane, tasks.first(half), observer);
    RunTasks(lane, tasks.subspan(half), observer);
    return RunOutcome::kBroken;
  }

  std::vector<absl::StatusOr<TaskResult>> results;
  int64_t at = 0;
  for (auto& task : tasks) {
    const int64_t first = std::exchange(at, at + task->images());
    task->request().stages.EndStage(Stage::kCompute, computed);
    if (!status.ok()) {
      results.emplace_back(status);
      continue;
    }
    if (stopped) {
      results.emplace_back(Cancelled("request.cancelled", "the caller cancelled the request"));
      continue;
    }
    // Inside the guard: the copies are as large as the caller's batch.
    absl::StatusOr<TaskResult> result = TaskResult{};
    const absl::Status copied =
        RunTorch("executor.failed", [&] { result = ResultOf(outputs, first, *task); });
    if (!copied.ok()) result = copied;
    if (result.ok()) {
      result->batch_size = run.images;
      result->batch_peak_bytes = run.peak_bytes;
    }
    run.non_finite += ReasonOf(result.status()) == kNonFinite;
    results.push_back(std::move(result));
  }
  run.scatter = clock_.Now() - computed;
  // Before the answers: whoever has one finds it counted.
  if (status.ok() && !stopped && observer != nullptr) observer->OnBatch(run);
  for (size_t i = 0; i < tasks.size(); ++i) {
    InferenceTask::Finish(std::move(tasks[i]), std::move(results[i]));
  }
  return status.ok() && !stopped ? RunOutcome::kWhole : RunOutcome::kBroken;
}

}  // namespace fovea
