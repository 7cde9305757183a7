#include "server/pipeline/served_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "server/core/log.h"
#include "server/executor/torch_status.h"
#include "server/pipeline/inference_pipeline.h"
#include "server/pipeline/model_options.h"
#include "server/pipeline/model_view.h"
#include "server/pipeline/run_log_context.h"

namespace fovea {
namespace {

// Of each level, the highest first.
std::vector<QueuePolicy> QueuePolicies(const ModelView& model) {
  std::vector<QueuePolicy> policies;
  for (int level = 1; level <= std::max(1, model.priority_levels); ++level) {
    policies.push_back(model.PolicyOf(level));
  }
  return policies;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Servable>> ServedModel::Create(const VersionToLoad& model,
                                                              const Environment& environment) {
  const ModelSpec& spec = model.spec;
  FOVEA_ASSIGN_OR_RETURN(const LaneArrangement arrangement, ArrangementOf(model, environment));
  const std::string who = absl::StrCat(model.name, " version ", model.version);
  const Nanos start = environment.clock.Now();

  std::vector<std::pair<BatchSize, Nanos>> warm_up;
  const WarmUpProgress progress = [&](const BatchSize& batch, Nanos took) {
    warm_up.emplace_back(batch, took);
    Log(LogLevel::kDebug,
        absl::StrFormat("%s: a batch of %d of shape %d takes %.2f ms on %d threads", who,
                        batch.images, batch.shape_key, took * 1e-6, batch.threads));
  };
  auto served = std::shared_ptr<ServedModel>(new ServedModel(model, environment));
  FOVEA_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<LaneDevice>> devices,
                         DevicesOf(arrangement, environment));
  for (std::unique_ptr<LaneDevice>& device : devices) {
    FOVEA_ASSIGN_OR_RETURN(std::unique_ptr<BatchExecutor> executor,
                           BatchExecutor::Create(ExecutorOptions(model, arrangement, environment),
                                                 std::move(device), environment.clock, progress));
    served->executors_.push_back(std::move(executor));
  }
  const models::ModelInfo& info = served->executor().info();
  served->preprocessing_ = ImagingSpec(info, served->executor().preprocessing());
  FOVEA_RETURN_IF_ERROR(CheckPreprocessSpec(served->preprocessing_));
  served->imaging_line_ = environment.imaging.AddLine(
      [served = served.get()](Nanos time) { served->observer_->OnImagingSaved(time); });
  ModelView view = DescribeServedModel(model, info, served->executor().device().name());
  view.fits_pictures = served->preprocessing_.resize_mode == ResizeMode::kFit;
  view.device_bytes = served->executor().device_bytes();
  view.max_device_bytes = environment.max_device_bytes;
  view.max_image_bytes = environment.max_image_bytes;
  view.max_image_pixels = environment.max_image_pixels;
  view.output_bytes = served->executor().output_bytes();
  view.memory_bytes = {{"weights", served->executor().weight_bytes()},
                       {"activations_peak", served->executor().peak_activation_bytes()}};
  served->view_ = std::make_shared<const ModelView>(std::move(view));
  served->postprocessor_ = Postprocessor::Create(served->view_);
  served->observer_ = environment.observe(served->view_);

  ModelQueueOptions queue_options{
      .name = model.name,
      .max_batch_size = spec.max_batch_size,
      .preferred_batch_sizes = spec.batching.preferred_batch_sizes,
      .max_queue_delay_us = spec.batching.max_queue_delay_us,
      .policies = QueuePolicies(*served->view_),
      .instances = arrangement.lanes * static_cast<int>(served->executors_.size()),
      .threads_per_batch = arrangement.threads_per_batch,
      .rate_limiter_priority = spec.instances.rate_limiter_priority,
      .drain_timeout_us = environment.drain_timeout_us,
      .on_thread_start = [served = served.get()](
                             int instance) { served->ExecutorOf(instance).device().EnterThread(); },
      .on_thread_idle = [served = served.get()](
                            int instance) { served->ExecutorOf(instance).device().IdleThread(); },
      .observer = served->observer_.get()};
  FOVEA_ASSIGN_OR_RETURN(
      served->queue_,
      environment.SchedulerOf(arrangement)
          .AddModel(queue_options, [served = served.get()](std::unique_ptr<Batch> batch) {
            return served->RunBatch(std::move(batch));
          }));
  Nanos alone = 0, full = 0;  // at the model's own size, on all its threads
  const int threads = arrangement.threads_per_batch.back();
  for (const auto& [batch, took] : warm_up) {
    served->queue_->RecordLatency(batch, took);
    if (batch.shape_key != 0 || batch.threads != threads) continue;
    if (batch.images == 1) alone = took;
    if (batch.images == spec.max_batch_size) full = took;
  }
  const std::string in_a_batch = full == 0 ? ""
                                           : absl::StrFormat(" and %.1f ms in a batch of %d",
                                                             full * 1e-6, spec.max_batch_size);
  Log(LogLevel::kInfo,
      absl::StrFormat("%s: ready after %.1f s; attention %s, %.1f ms alone%s on %d threads, %.1f "
                      "MiB of weights",
                      who, (environment.clock.Now() - start) * 1e-9,
                      info.attention.empty() ? "none" : info.attention, alone * 1e-6, in_a_batch,
                      threads, served->executor().weight_bytes() / 1048576.0));
  return served;
}

void ServedModel::Take(std::shared_ptr<const ServingModel> self,
                       std::unique_ptr<InferenceRequest> request, InferenceCallback done) const {
  RunThroughStages(*this, std::move(self), std::move(request), imaging_, clock_, std::move(done));
}

void ServedModel::CountImaging(const InferenceRequest& request, const absl::Status& status) const {
  if (request.imaging_thread_time == 0) return;
  observer_->OnImagingTime(request.imaging_thread_time);
  if (request.idle_only) return;  // nobody has waited for it
  const bool unwanted = absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
                        request.cancellation->Cancelled() ||
                        (request.deadline != kNever && clock_.Now() >= request.deadline);
  if (unwanted) observer_->OnImagingWasted(request.imaging_thread_time);
}

RunOutcome ServedModel::RunBatch(std::unique_ptr<Batch> batch) {
  std::vector<std::unique_ptr<InferenceTask>> tasks;
  tasks.reserve(batch->tasks.size());
  for (std::unique_ptr<Task>& task : batch->tasks) {
    // Every task of this queue was made by the pipeline.
    tasks.emplace_back(static_cast<InferenceTask*>(task.release()));
  }
  const RunLogContext context(*view_, tasks);
  BatchExecutor& executor = ExecutorOf(batch->instance);
  const int lane = batch->instance / static_cast<int>(executors_.size());
  const RunOutcome outcome = executor.Run(lane, batch->threads, std::move(tasks), observer_.get());
  if (executor.device_lost() && !lost_.exchange(true) && source_.on_lost) {
    source_.on_lost(DeviceLost());
  }
  return outcome;
}

}  // namespace fovea
