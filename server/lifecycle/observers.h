// Between what happens in the stages and those who count and log it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/request_observer.h"
#include "server/compare/live/experiment_observer.h"
#include "server/observe/access_log.h"
#include "server/observe/metrics.h"
#include "server/pipeline/model_observer.h"
#include "server/repository/repository_observer.h"
#include "server/tracing/tracer.h"

namespace fovea {

// Counts what one version's queue and executor do.
std::unique_ptr<ModelObserver> ObserveModel(Metrics& metrics, const ModelView& model);

// Counts what one live comparison does.
std::unique_ptr<ExperimentObserver> ObserveExperiment(Metrics& metrics, const ExperimentPlan& plan,
                                                      const std::vector<std::string>& arms);

// Counts requests, answered ones under the model that they were asked of, logs these, and records
// their spans.
class AnswerObserver final : public RequestObserver {
 public:
  // All outlive it.
  AnswerObserver(Metrics& metrics, AccessLog& log, Tracer& tracer)
      : metrics_(metrics), log_(log), tracer_(tracer) {}
  void OnRequestArrived() override;
  void OnRequestDone(const AnsweredRequest& request) override;
  void OnStreamEnded(const EndedStream& stream) override;

 private:
  Metrics& metrics_;
  AccessLog& log_;
  Tracer& tracer_;
};

// Logs loads and unloads, and counts those that fail.
class RepositoryLog final : public RepositoryObserver {
 public:
  explicit RepositoryLog(Metrics& metrics) : metrics_(metrics) {}
  void OnLoad(const LoadReport& report) override;
  void OnCanary(const CanaryReport& report) override;
  void OnLost(std::string_view model, int64_t version, const absl::Status& why) override;
  void OnUnloaded(std::string_view model, int64_t version) override;
  void OnUnreadableRepository(const absl::Status& problem) override;
  void OnIgnoredFolder(std::string_view name) override;

 private:
  Metrics& metrics_;
};

}  // namespace fovea
