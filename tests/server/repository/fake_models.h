// A factory of servables that do nothing, whose failures and duration a test decides.
#pragma once

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "server/core/mutex.h"
#include "server/repository/servable.h"

namespace fovea {

// Thread-safe.
class FakeModels {
 public:
  class FakeServable final : public Servable {
   public:
    FakeServable(FakeModels& models, const VersionToLoad& model, int64_t classes, int serial)
        : models_(models), spec_(model.spec), serial_(serial) {
      auto view = std::make_shared<ModelView>();
      view->name = model.name;
      view->version = std::to_string(model.version);
      view->labels = std::make_shared<const std::vector<std::string>>(model.labels);
      view->num_classes = classes;
      view->max_batch_size = model.spec.max_batch_size;
      view->priority_levels = model.spec.batching.priority_levels;
      view->sizes = {{2, 3}};
      view_ = std::move(view);
      if (!model.spec.description.weights.empty()) {
        std::ifstream file(model.spec.description.weights, std::ios::binary);
        weights_.assign(std::istreambuf_iterator<char>(file), {});
      }
      MutexLock lock(models_.mutex_);
      ++models_.alive_;
    }
    ~FakeServable() override {
      MutexLock lock(models_.mutex_);
      --models_.alive_;
      models_.destroyers_.insert(std::this_thread::get_id());
      models_.changed_.NotifyAll();
    }

    void OnAnswered(Protocol, absl::StatusCode, const StageTimes&) const override {}
    const std::shared_ptr<const ModelView>& view() const override { return view_; }
    void Take(std::shared_ptr<const ServingModel>, std::unique_ptr<InferenceRequest> request,
              InferenceCallback done) const override {
      done(models_.Answer(*request), request->stages);
    }
    const ModelSpec& spec() const { return spec_; }
    const std::string& weights() const { return weights_; }
    int serial() const { return serial_; }  // 1: the first that the factory built

   private:
    FakeModels& models_;
    const ModelSpec spec_;
    const int serial_;
    std::shared_ptr<const ModelView> view_;
    std::string weights_;
  };

  ServableFactory Factory() {
    return [this](const VersionToLoad& model) { return Build(model); };
  }

  // Loads of the model fail so; OK: they succeed again.
  void Fail(const std::string& name, absl::Status status) {
    MutexLock lock(mutex_);
    failures_[name] = std::move(status);
  }
  // What every request is answered with from now on. Without it, nobody may ask.
  using Answers = std::function<absl::StatusOr<InferenceResponse>(const InferenceRequest& request)>;
  void AnswerWith(Answers answers) {
    MutexLock lock(mutex_);
    answers_ = std::move(answers);
  }
  // The newest load of the model tells that it can answer nothing any more.
  void Lose(const std::string& name, const absl::Status& why) {
    std::function<void(const absl::Status&)> on_lost;
    {
      MutexLock lock(mutex_);
      on_lost = on_lost_.at(name);
    }
    on_lost(why);
  }
  // Loads of the model wait until Release.
  void Hold(const std::string& name) {
    MutexLock lock(mutex_);
    held_.insert(name);
  }
  // As Hold, as on a disk that hangs: they do not give up when they are asked to either.
  void Hang(const std::string& name) {
    Hold(name);
    MutexLock lock(mutex_);
    hung_.insert(name);
  }
  void Release(const std::string& name) {
    MutexLock lock(mutex_);
    held_.erase(name);
    hung_.erase(name);
    changed_.NotifyAll();
  }
  // Returns once a load of the model is waiting.
  void AwaitHeld(const std::string& name) {
    MutexLock lock(mutex_);
    while (waiting_.count(name) == 0) changed_.Wait(mutex_);
  }
  void SetClasses(int64_t classes) {
    MutexLock lock(mutex_);
    classes_ = classes;
  }

  // Loads that were begun.
  int Begun(const std::string& name) {
    MutexLock lock(mutex_);
    return begun_[name];
  }
  int Alive() {
    MutexLock lock(mutex_);
    return alive_;
  }
  void AwaitAlive(int count) {
    MutexLock lock(mutex_);
    while (alive_ != count) changed_.Wait(mutex_);
  }
  // Threads that destroyed a servable.
  std::set<std::thread::id> Destroyers() {
    MutexLock lock(mutex_);
    return destroyers_;
  }

 private:
  absl::StatusOr<std::shared_ptr<Servable>> Build(const VersionToLoad& model) {
    if (model.on_progress) model.on_progress("is built");
    int64_t classes;
    int serial;
    {
      MutexLock lock(mutex_);
      ++begun_[model.name];
      waiting_.insert(model.name);
      changed_.NotifyAll();
      while (held_.count(model.name) > 0 &&
             (hung_.count(model.name) > 0 || !model.cancellation->Cancelled())) {
        changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
      }
      waiting_.erase(model.name);
      if (held_.count(model.name) > 0) return absl::UnavailableError("given up");
      if (const absl::Status& failure = failures_[model.name]; !failure.ok()) return failure;
      classes = classes_;
      serial = ++serial_;
      on_lost_[model.name] = model.on_lost;
    }
    return std::make_shared<FakeServable>(*this, model, classes, serial);
  }

  absl::StatusOr<InferenceResponse> Answer(const InferenceRequest& request) {
    Answers answers;
    {
      MutexLock lock(mutex_);
      answers = answers_;
    }
    FOVEA_CHECK(answers != nullptr);
    return answers(request);
  }

  Mutex mutex_;
  CondVar changed_;
  Answers answers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::function<void(const absl::Status&)>> on_lost_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> held_ ABSL_GUARDED_BY(mutex_), hung_ ABSL_GUARDED_BY(mutex_),
      waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> begun_ ABSL_GUARDED_BY(mutex_);
  std::set<std::thread::id> destroyers_ ABSL_GUARDED_BY(mutex_);
  int64_t classes_ ABSL_GUARDED_BY(mutex_) = 0;
  int serial_ ABSL_GUARDED_BY(mutex_) = 0;
  int alive_ ABSL_GUARDED_BY(mutex_) = 0;
};

using FakeServable = FakeModels::FakeServable;

}  // namespace fovea
