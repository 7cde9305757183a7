#include "server/executor/batch_executor.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "kernels/measures/memory_ledger.h"
#include "model_zoo/model.h"
#include "server/executor/normalise.h"
#include "server/executor/torch_status.h"

namespace fovea {
namespace {

constexpr std::string_view kNonFinite = "executor.non_finite_output";

// Stops a pass when every caller of the batch has gone.
class BatchContext final : public models::ForwardContext {
 public:
  explicit BatchContext(std::span<const std::unique_ptr<InferenceTask>> tasks) : tasks_(tasks) {}
  bool ShouldStop() override {
    return std::all_of(tasks_.begin(), tasks_.end(),
                       [](const auto& task) { return task->Cancelled(); });
  }

 private:
  std::span<const std::unique_ptr<InferenceTask>> tasks_;
};

// Stops a pass of the warm-up when the load is not wanted any more.
class LoadContext final : public models::ForwardContext {
 public:
  explicit LoadContext(CancellationPtr cancellation) : cancellation_(std::move(cancellation)) {}
  bool ShouldStop() override { return cancellation_ != nullptr && cancellation_->Cancelled(); }

 private:
  const CancellationPtr cancellation_;
};

bool AllFinite(const at::Tensor& values) {
  // A sum is finite exactly when no NaN or infinity is in it, short of an overflow in double, which
  // floats cannot reach.
  const float* data = values.const_data_ptr<float>();
  return std::isfinite(std::accumulate(data, data + values.numel(), 0.0));
}

std::string RawBytes(const at::Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
}

}  // namespace

// The input buffer is kept from batch to batch: allocating it anew would fault its pages in every
// time.
class BatchExecutor::Lane {
 public:
  Lane(const models::ModelInfo& info, const models::Preprocessing& preprocessing,
       int max_batch_size)
      : pixels_per_image_(info.image_height * info.image_width),
        normalisation_(Normalisation::From(preprocessing.mean, preprocessing.std)),
        input_(info.pixel_input == models::PixelInput::kBytes
                   ? at::zeros({max_batch_size, info.image_height, info.image_width, 3}, at::kByte)
                   : at::zeros({max_batch_size, 3, info.image_height, info.image_width},
                               at::kFloat)) {}

  // The first `images` images of the buffer.
  at::Tensor Input(int images) const { return input_.narrow(0, 0, images); }

  // Copies the tasks' pixels into the buffer, one after another: the only copy between the socket
  // and the model.
  at::Tensor Gather(std::span<const std::unique_ptr<InferenceTask>> tasks) {
    int64_t at = 0;
    for (const auto& task : tasks) {
      std::visit([&](const auto& pixels) { Copy(pixels, at, task->images()); }, task->pixels());
      at += task->images();
    }
    return Input(static_cast<int>(at));
  }

 private:
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

  int64_t pixels_per_image_;
  Normalisation normalisation_;
  at::Tensor input_;
};

absl::StatusOr<std::unique_ptr<BatchExecutor>> BatchExecutor::Create(
    const BatchExecutorOptions& options, Clock& clock, const WarmUpProgress& progress) {
  at::set_num_threads(options.threads_per_instance);
  const absl::Cleanup release = [] { IntraOpThreads::Release(); };
  std::unique_ptr<models::Model> model;
  FOVEA_RETURN_IF_ERROR(RunTorchLoad("model.load_failed", [&] {
    model = models::LoadModel(options.model);
    model->Prepare(at::kCPU, options.model.precision);
  }));
  return CreateWithModel(std::move(model), options, clock, progress);
}

absl::StatusOr<std::unique_ptr<BatchExecutor>> BatchExecutor::CreateWithModel(
    std::unique_ptr<models::Model> model, const BatchExecutorOptions& options, Clock& clock,
    const WarmUpProgress& progress) {
  FOVEA_CHECK(options.max_batch_size >= 1 && options.instances >= 1);
  std::unique_ptr<BatchExecutor> executor(new BatchExecutor(std::move(model), options, clock));
  FOVEA_RETURN_IF_ERROR(executor->WarmUp(progress));
  return executor;
}

BatchExecutor::BatchExecutor(std::unique_ptr<models::Model> model,
                             const BatchExecutorOptions& options, Clock& clock)
    : model_(std::move(model)),
      options_(options),
      preprocessing_(options.preprocessing ? options.preprocessing(model_->info().preprocessing)
                                           : model_->info().preprocessing),
      clock_(clock),
      intra_op_threads_(options.threads_per_instance, options.instances) {}

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

// `input_bytes` and `pass_bytes`: of one image, its pixels and what a pass holds at most.
absl::Status BatchExecutor::CheckMemory(int64_t input_bytes, int64_t pass_bytes) const {
  const std::optional<int64_t> available =
      options_.available_memory ? options_.available_memory() : std::nullopt;
  const int64_t needed = options_.max_batch_size * (options_.instances * input_bytes +
                                                    options_.concurrent_instances * pass_bytes);
  if (!available || needed <= *available) return absl::OkStatus();
  return FailedPrecondition(
      "model.too_large",
      absl::StrFormat(
          "batches of %d in %d instances need about %.1f GiB of memory, and %.1f GiB are "
          "free: lower max_batch_size or instance_group.count",
          options_.max_batch_size, options_.instances, std::ldexp(needed, -30),
          std::ldexp(*available, -30)));
}

absl::Status BatchExecutor::WarmUp(const WarmUpProgress& progress) {
  std::optional<MutexLock> turn;
  if (options_.warm_up_turn != nullptr) turn.emplace(*options_.warm_up_turn);
  LoadContext context(options_.cancellation);
  // A pass, and the most memory that it held beside its input.
  const auto run = [&](const at::Tensor& input) {
    kernels::MemoryLedger ledger;
    model_->Run(input, context);
    return ledger.peak_bytes();
  };
  absl::Status fits;
  FOVEA_RETURN_IF_ERROR(RunTorch("model.warm_up_failed", [&] {
    EnterThread();
    const at::Tensor one = Lane(info(), preprocessing_, 1).Input(1);
    const auto input_bytes = static_cast<int64_t>(one.nbytes());
    fits = CheckMemory(input_bytes, run(one));
    if (!fits.ok()) return;
    for (int instance = 0; instance < options_.instances; ++instance) {
      lanes_.push_back(std::make_unique<Lane>(info(), preprocessing_, options_.max_batch_size));
    }
    // The largest first: the allocator's and oneDNN's buffers then serve the smaller ones. The
    // first pass of a size builds oneDNN's primitives for it, a few milliseconds each, and is not
    // what a batch will take: where the time is to be known, there is a second one. A doubling of
    // sizes is enough of them for the latency curve.
    int next_timed = options_.max_batch_size;
    for (const int images : WarmUpSizes(options_.max_batch_size)) {
      const at::Tensor input = lanes_[0]->Input(images);
      peak_activation_bytes_ =
          std::max<int64_t>(peak_activation_bytes_, run(input) + images * input_bytes);
      if (context.ShouldStop()) return;
      if (images > next_timed) continue;
      next_timed = images / 2;
      const Nanos start = clock_.Now();
      model_->Run(input, context);
      if (progress) progress(images, clock_.Now() - start);
    }
  }));
  FOVEA_RETURN_IF_ERROR(fits);
  if (context.ShouldStop()) return Unavailable("model.load_stopped", "loading was stopped");
  return absl::OkStatus();
}

RunOutcome BatchExecutor::Run(int instance, std::vector<std::unique_ptr<InferenceTask>> tasks,
                              ExecutionObserver* observer) {
  FOVEA_CHECK(instance >= 0 && static_cast<size_t>(instance) < lanes_.size());
  const Nanos now = clock_.Now();
  for (auto& task : tasks) task->request().stages.EndStage(Stage::kQueue, now);
  return RunTasks(*lanes_[instance], tasks, observer);
}

absl::StatusOr<TaskResult> BatchExecutor::ResultOf(std::span<const at::Tensor> outputs,
                                                   int64_t first, int images) const {
  TaskResult result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const models::ModelInfo::Output& described = info().outputs[i];
    const at::Tensor rows = outputs[i].narrow(0, first, images);
    FOVEA_CHECK(rows.is_contiguous());
    if (!described.bytes && !AllFinite(rows)) {
      return Internal(kNonFinite, "the model's output is not a finite number");
    }
    OutputTensor& output = result.outputs.emplace_back();
    output.name = described.name;
    output.type = described.bytes ? DataType::kUint8 : DataType::kFp32;
    output.shape.assign(rows.sizes().begin(), rows.sizes().end());
    output.data = RawBytes(rows);
  }
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
    const at::Tensor input = lane.Gather(tasks);
    run.images = static_cast<int>(input.size(0));
    gathered = clock_.Now();
    kernels::MemoryLedger ledger;
    BatchContext context(tasks);
    outputs = model_->Run(input, context);
    stopped = outputs.empty();
    run.peak_bytes = ledger.peak_bytes() + static_cast<int64_t>(input.nbytes());
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
    const int images = task->images();
    const int64_t first = std::exchange(at, at + images);
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
        RunTorch("executor.failed", [&] { result = ResultOf(outputs, first, images); });
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
