#include "server/executor/batch_executor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "model_zoo/model.h"
#include "server/executor/finite.h"
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

// Why nobody waits for a task any more; OK where somebody does.
absl::Status Unwanted(const InferenceTask& task, Clock& clock) {
  if (task.Cancelled()) return Cancelled("request.cancelled", "the caller cancelled the request");
  if (task.deadline() == kNever || clock.Now() < task.deadline()) return absl::OkStatus();
  return DeadlineExceeded("request.deadline_passed", "the deadline passed while the request ran");
}

// Stops a pass when nobody waits for any task of the batch; knows where its images end.
class BatchContext final : public models::ForwardContext {
 public:
  BatchContext(std::span<const std::unique_ptr<InferenceTask>> tasks,
               const models::ImageSize& input, Clock& clock)
      : tasks_(tasks), clock_(clock) {
    for (const auto& task : tasks) {
      const std::vector<models::ImageSize> more = ContentsOf(*task, input);
      contents_.insert(contents_.end(), more.begin(), more.end());
    }
  }

  // Mostly the first task is wanted: an atomic load, and the clock where it has a deadline.
  bool ShouldStop() override {
    return std::all_of(tasks_.begin(), tasks_.end(), [this](const auto& task) {
      return task->Cancelled() || (task->deadline() != kNever && clock_.Now() >= task->deadline());
    });
  }

  models::ImageSize Content(int64_t image, const models::ImageSize& /*input*/) const override {
    return contents_[image];
  }

  double padding(const models::ImageSize& input) const {
    return PaddingOf(contents_, input.height, input.width);
  }

 private:
  std::span<const std::unique_ptr<InferenceTask>> tasks_;
  Clock& clock_;
  std::vector<models::ImageSize> contents_;
};

std::string RawBytes(const at::Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
}

}  // namespace

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

RunOutcome BatchExecutor::Run(int instance, int threads,
                              std::vector<std::unique_ptr<InferenceTask>> tasks,
                              ExecutionObserver* observer) {
  FOVEA_CHECK(instance >= 0 && static_cast<size_t>(instance) < lanes_.size());
  const Nanos now = clock_.Now();
  for (auto& task : tasks) task->request().stages.EndStage(Stage::kQueue, now);
  return RunTasks(*lanes_[instance], threads, tasks, observer);
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
    if (!task.request().non_finite_input && rows.back().scalar_type() == at::kFloat &&
        !AllFinite(rows.back())) {
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

absl::Status BatchExecutor::RunOnDevice(absl::FunctionRef<void()> work) {
  if (device_lost_) return DeviceLost();
  absl::Status status = RunTorch("executor.failed", work);
  if (ReasonOf(status) == kDeviceLost) device_lost_ = true;
  return TellIfLost(std::move(status), options_.on_device_lost);
}

RunOutcome BatchExecutor::RunTasks(Lane& lane, int threads,
                                   std::span<std::unique_ptr<InferenceTask>> tasks,
                                   ExecutionObserver* observer) {
  ExecutionObserver::BatchRun run{.threads = threads, .shape_key = tasks.front()->shape_key()};
  std::vector<at::Tensor> outputs;
  bool stopped = false;
  const Nanos start = clock_.Now();
  Nanos gathered = start;
  const absl::Status status = RunOnDevice([&] {
    run.images = lane.Gather(tasks);
    const BatchSize batch{.images = run.images, .shape_key = run.shape_key, .threads = threads};
    gathered = clock_.Now();
    const models::ImageSize input = info().sizes()[batch.shape_key];
    BatchContext context(tasks, input, clock_);
    run.padding = context.padding(input);
    Lane::Pass pass = lane.Run(batch, context);
    outputs = std::move(pass.outputs);
    stopped = outputs.empty();
    run.peak_bytes = pass.peak_bytes;
    run.device_times = pass.device_times;
  });
  const Nanos computed = clock_.Now();
  run.gather = gathered - start;
  run.compute = computed - gathered;
  if (observer != nullptr) observer->OnPass(computed - start, threads);

  if (!status.ok() && !device_lost_ && tasks.size() > 1) {
    // One of them is to blame, or they are too many for the memory: halves tell, and the others
    // still get their answer.
    const size_t half = tasks.size() / 2;
    RunTasks(lane, threads, tasks.first(half), observer);
    RunTasks(lane, threads, tasks.subspan(half), observer);
    return RunOutcome::kBroken;
  }

  std::vector<absl::StatusOr<TaskResult>> results;
  int64_t at = 0, unwanted_images = 0;
  for (auto& task : tasks) {
    const int64_t first = std::exchange(at, at + task->images());
    task->request().stages.EndStage(Stage::kCompute, computed);
    const absl::Status unwanted = Unwanted(*task, clock_);
    if (!unwanted.ok() && task->idle_only() == nullptr) unwanted_images += task->images();
    if (!status.ok() || stopped) {
      results.emplace_back(status.ok() ? unwanted : status);
      continue;
    }
    // Inside the guard: the copies are as large as the caller's batch.
    absl::StatusOr<TaskResult> result = TaskResult{};
    const absl::Status copied =
        RunTorch("executor.failed", [&] { result = ResultOf(outputs, first, *task); });
    if (!copied.ok()) result = copied;
    if (result.ok()) {
      result->batch_size = run.images;
      result->batch_threads = run.threads;
      result->batch_peak_bytes = run.peak_bytes;
      result->device_times = run.device_times;
    }
    run.non_finite += ReasonOf(result.status()) == kNonFinite;
    results.push_back(std::move(result));
  }
  run.scatter = clock_.Now() - computed;
  // Before the answers: whoever has one finds it counted.
  if (status.ok() && !stopped && observer != nullptr) observer->OnBatch(run);
  if (unwanted_images > 0 && observer != nullptr) {
    observer->OnWorkWasted((computed - start) * threads * unwanted_images / at);
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    InferenceTask::Finish(std::move(tasks[i]), std::move(results[i]));
  }
  if (stopped) return RunOutcome::kStopped;
  return status.ok() ? RunOutcome::kWhole : RunOutcome::kBroken;
}

}  // namespace fovea
