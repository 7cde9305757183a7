#include "server/lifecycle/observers.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/log.h"
#include "server/lifecycle/request_spans.h"
#include "server/observe/experiment_meter.h"

namespace fovea {
namespace {

class MeteredModel final : public ModelObserver {
 public:
  MeteredModel(std::shared_ptr<ModelMeter> meter, const ModelView& model)
      : meter_(std::move(meter)),
        has_levels_(model.priority_levels > 1),
        sizes_(model.sizes),
        device_(model.device) {}

  void OnQueueDepth(int waiting, int reserved) override {
    meter_->OnQueueDepth(waiting + reserved);
  }
  void OnPriorityDepth(int priority, int places) override {
    meter_->OnPriorityDepth(priority, places);
  }
  void OnRejected(int priority, Rejection reason) override {
    meter_->OnRejected(RejectionName(reason));
    if (has_levels_) meter_->OnPriorityRejected(priority, RejectionName(reason));
  }
  void OnDropped(int priority, Rejection reason) override { OnRejected(priority, reason); }
  void OnDelayed(int tasks) override { meter_->OnDelayed(tasks); }
  void OnBatchClosed(const Batch& batch) override {
    if (has_levels_) {
      for (const auto& task : batch.tasks) meter_->OnPriorityRun(task->priority());
    }
    meter_->OnBatchClosed(CloseReasonName(batch.why));
  }
  void OnBatchDone(int, Nanos) override {}  // the executor tells more of it
  void OnWorkSaved(Nanos time) override { meter_->OnCancelledWork("compute", "saved", time); }
  void OnWorkWasted(Nanos time) override { meter_->OnCancelledWork("compute", "wasted", time); }
  void OnImagingSaved(Nanos time) override { meter_->OnCancelledWork("imaging", "saved", time); }
  void OnImagingTime(Nanos time) override { meter_->OnImagingTime(time); }
  void OnImagingWasted(Nanos time) override { meter_->OnCancelledWork("imaging", "wasted", time); }
  void OnPass(Nanos time, int threads) override { meter_->OnPass(device_, time, threads); }
  void OnAnswered(Protocol protocol, absl::StatusCode code, const StageTimes& stages) override {
    meter_->OnAnswered(protocol, code, stages);
  }
  void OnBatch(const BatchRun& run) override {
    meter_->OnBatch({.images = run.images,
                     .threads = run.threads,
                     .gather = run.gather,
                     .compute = run.compute,
                     .scatter = run.scatter,
                     .peak_bytes = run.peak_bytes,
                     .device_times = run.device_times,
                     .padding = run.padding,
                     .size = sizes_[run.shape_key]});
    meter_->OnNonFinite(run.non_finite);
  }

 private:
  const std::shared_ptr<ModelMeter> meter_;
  const bool has_levels_;
  const std::vector<ImageSize> sizes_;  // by shape key
  const std::string device_;
};

class MeteredExperiment final : public ExperimentObserver {
 public:
  MeteredExperiment(Metrics& metrics, const ExperimentPlan& plan,
                    const std::vector<std::string>& arms)
      : meter_(metrics.families(), plan.name, plan.model_name, arms) {}

  void OnRequest(size_t arm, ArmOutcome outcome) override { meter_.OnRequest(arm, outcome); }
  void OnTests(size_t arm, const std::optional<SequentialTest>& latency_ratio,
               const std::optional<SequentialTest>& disagreement,
               const std::optional<SequentialTest>& error_excess) override {
    if (latency_ratio) meter_.SetLatencyRatio(arm, *latency_ratio);
    if (disagreement) meter_.SetDisagreement(arm, *disagreement);
    if (error_excess) meter_.SetErrorExcess(arm, *error_excess);
  }
  void OnEnded(ExperimentState why) override { meter_.OnEnded(why); }

 private:
  ExperimentMeter meter_;
};

}  // namespace

std::unique_ptr<ExperimentObserver> ObserveExperiment(Metrics& metrics, const ExperimentPlan& plan,
                                                      const std::vector<std::string>& arms) {
  return std::make_unique<MeteredExperiment>(metrics, plan, arms);
}

std::unique_ptr<ModelObserver> ObserveModel(Metrics& metrics, const ModelView& model) {
  return std::make_unique<MeteredModel>(metrics.Meter(model), model);
}

void AnswerObserver::OnRequestArrived() { metrics_.families().inflight_requests.Increment(); }

void AnswerObserver::OnRequestDone(const AnsweredRequest& request) {
  metrics_.families().inflight_requests.Decrement();
  const std::string trace_id = TraceIdText(request.trace.context.trace);
  log_.Write({.protocol = ProtocolName(request.protocol),
              .method = request.method,
              .principal = request.principal,
              .trace_id = trace_id,
              .id = request.id,
              .model = request.requested_model,
              // The one that was meant, where the caller left it open.
              .version = request.model != nullptr ? request.model->view()->version
                                                  : request.requested_version,
              .code = request.code,
              .reason = request.reason,
              .stages = request.stages,
              .received_bytes = request.received_bytes,
              .sent_bytes = request.sent_bytes});
  if (request.trace.recorded) tracer_.Record(SpansOf(request));
  if (!request.key.empty()) metrics_.OnKeyUsed(request.key, request.code);
  if (request.model != nullptr) {
    request.model->OnAnswered(request.protocol, request.code, request.stages);
  } else {
    metrics_.OnUnmatched(request.protocol, request.code);
  }
}

void AnswerObserver::OnStreamEnded(const EndedStream& stream) {
  std::vector<Span> spans;
  spans.push_back(SpanOf(stream));
  tracer_.Record(std::move(spans));
}

void RepositoryLog::OnLoad(const LoadReport& report) {
  const std::string who =
      absl::StrCat(std::string(report.model),
                   report.version == 0 ? "" : absl::StrCat(" version ", report.version));
  if (report.status.ok()) {
    Log(LogLevel::kDebug, absl::StrFormat("%s: loaded in %.1f s", who, report.duration * 1e-9));
    return;
  }
  metrics_.families().failed_loads.Increment();
  Log(LogLevel::kError,
      absl::StrCat(who, ": not loaded", report.serving ? " (what served before serves on)" : "",
                   ": ", report.status.message()));
}

void RepositoryLog::OnCanary(const CanaryReport& report) {
  const std::string who = absl::StrCat(std::string(report.model), " version ", report.version);
  if (report.status.ok()) {
    Log(LogLevel::kWarning, absl::StrCat(who, ": back in service, its canary passes again"));
    return;
  }
  metrics_.families().failed_canaries.Increment();
  Log(LogLevel::kError, absl::StrCat(who, ": taken out of service: ", report.status.message()));
}

void RepositoryLog::OnLost(std::string_view model, int64_t version, const absl::Status& why) {
  metrics_.families().lost_devices.Increment();
  Log(LogLevel::kError,
      absl::StrCat(std::string(model), " version ", version,
                   ": taken out of service until it is loaded again: ", why.message()));
}

void RepositoryLog::OnUnloaded(std::string_view model, int64_t version) {
  Log(LogLevel::kInfo, absl::StrCat(std::string(model), " version ", version, ": unloaded"));
}

void RepositoryLog::OnUnreadableRepository(const absl::Status& problem) {
  Log(LogLevel::kError, absl::StrCat("a model repository cannot be read: ", problem.message()));
}

void RepositoryLog::OnIgnoredFolder(std::string_view name) {
  Log(LogLevel::kWarning,
      absl::StrCat("ignored, because no model can be called so: ", std::string(name)));
}

}  // namespace fovea
