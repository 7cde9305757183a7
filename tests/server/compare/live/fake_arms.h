// Models that answer as a test says, for experiments.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/compare/live/experiment_observer.h"
#include "server/core/model_catalog.h"
#include "server/core/mutex.h"

namespace fovea {

inline std::shared_ptr<ModelView> ArmView(std::string name, std::string attention) {
  auto view = std::make_shared<ModelView>();
  view->name = std::move(name);
  view->version = "1";
  view->attention = std::move(attention);
  view->sizes = {{8, 8}};
  view->num_classes = 3;
  view->max_batch_size = 8;
  return view;
}

// A classifier.
class ArmModelFake final : public ServingModel {
 public:
  using Answer =
      std::function<void(std::unique_ptr<InferenceRequest> request, InferenceCallback done)>;

  explicit ArmModelFake(std::shared_ptr<const ModelView> view, Answer answer = nullptr)
      : view_(std::move(view)), answer_(std::move(answer)) {}
  const std::shared_ptr<const ModelView>& view() const override { return view_; }
  void OnAnswered(Protocol, absl::StatusCode, const StageTimes&) const override { ++counted; }

  mutable std::atomic<int> counted = 0;

 private:
  void Take(std::shared_ptr<const ServingModel>, std::unique_ptr<InferenceRequest> request,
            InferenceCallback done) const override {
    answer_(std::move(request), std::move(done));
  }

  const std::shared_ptr<const ModelView> view_;
  const Answer answer_;
};

// Models that come and go. Thread-safe.
class ArmCatalog final : public ModelCatalog {
 public:
  void Serve(const std::shared_ptr<const ServingModel>& model) {
    MutexLock lock(mutex_);
    models_[model->view()->name] = model;
  }
  absl::Status Unload(std::string_view name) override {
    MutexLock lock(mutex_);
    models_.erase(std::string(name));
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<const ModelView>> Find(std::string_view name,
                                                        std::string_view version) const override {
    FOVEA_ASSIGN_OR_RETURN(const auto model, Acquire(name, version));
    return model->view();
  }
  absl::StatusOr<std::shared_ptr<const ServingModel>> Acquire(
      std::string_view name, std::string_view version) const override {
    MutexLock lock(mutex_);
    const auto found = models_.find(std::string(name));
    if (found == models_.end() || (!version.empty() && version != "1")) {
      return NotFound("model.not_found", "no such model");
    }
    return found->second;
  }
  std::vector<IndexEntry> Index() const override { return {}; }
  absl::Status Load(std::string_view, std::string_view) override { return absl::OkStatus(); }
  absl::Status LoadFiles(std::string_view, std::string_view, std::vector<SentFile>,
                         absl::FunctionRef<void()>) override {
    return absl::OkStatus();
  }
  void OnReadinessChange(ReadinessListener) override {}

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const ServingModel>> models_ ABSL_GUARDED_BY(mutex_);
};

// What experiments have told those who count; outlives them.
struct ArmCounts {
  std::atomic<int> observers = 0;  // that there are
  std::atomic<int> ended = 0;
  std::atomic<int> outcomes[4] = {};  // of all arms
  std::atomic<int> tests = 0;

  int of(ArmOutcome outcome) const { return outcomes[static_cast<size_t>(outcome)]; }

  ExperimentObserverFactory Factory() {
    return [this](const ExperimentPlan&, const std::vector<std::string>&) {
      return std::make_unique<Observer>(*this);
    };
  }

 private:
  class Observer final : public ExperimentObserver {
   public:
    explicit Observer(ArmCounts& counts) : counts_(counts) { ++counts_.observers; }
    ~Observer() override { --counts_.observers; }
    void OnRequest(size_t, ArmOutcome outcome) override {
      ++counts_.outcomes[static_cast<size_t>(outcome)];
    }
    void OnTests(size_t, const std::optional<SequentialTest>&, const std::optional<SequentialTest>&,
                 const std::optional<SequentialTest>&) override {
      ++counts_.tests;
    }
    void OnEnded(ExperimentState) override { ++counts_.ended; }

   private:
    ArmCounts& counts_;
  };
};

}  // namespace fovea
