// Between what happens in the stages and those who count and log it.
#pragma once

#include <memory>

#include "server/api/request_observer.h"
#include "server/core/inference_service.h"
#include "server/observe/access_log.h"
#include "server/observe/metrics.h"
#include "server/pipeline/model_observer.h"
#include "server/repository/repository_observer.h"

namespace fovea {

// Counts what one version's queue and executor do.
std::unique_ptr<ModelObserver> ObserveModel(Metrics& metrics, const ModelView& model);

// Counts answered requests under the model that they were asked of, and logs them.
class AnswerObserver final : public RequestObserver {
 public:
  AnswerObserver(Metrics& metrics, AccessLog& log) : metrics_(metrics), log_(log) {}
  void OnRequestDone(const AnsweredRequest& request) override;

 private:
  Metrics& metrics_;
  AccessLog& log_;
};

// Logs loads and unloads, and counts those that fail.
class RepositoryLog final : public RepositoryObserver {
 public:
  explicit RepositoryLog(Metrics& metrics) : metrics_(metrics) {}
  void OnLoad(const LoadReport& report) override;
  void OnUnloaded(std::string_view model, int64_t version) override;
  void OnUnreadableRepository(const absl::Status& problem) override;
  void OnIgnoredFolder(std::string_view name) override;

 private:
  Metrics& metrics_;
};

// Passes requests on, and keeps the number of those that are not answered yet.
class InflightCounter final : public InferenceService {
 public:
  InflightCounter(InferenceService& service, Metrics& metrics)
      : service_(service), metrics_(metrics) {}
  void Infer(std::unique_ptr<InferenceRequest> request, InferenceCallback done) override;

 private:
  InferenceService& service_;
  Metrics& metrics_;
};

}  // namespace fovea
