// Live comparisons that do as a test says.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/core/live_experiment.h"

namespace fovea {

// Sends every request for "vit" to `arm`, once there is one, and writes down what it hears.
class FakeLiveExperiments final : public LiveExperiments {
 public:
  std::shared_ptr<const ServingModel> arm;
  std::vector<std::string> heard;
  Nanos allowed = 0;              // the last one's time
  std::function<void()> on_left;  // may be null

  void Start(ExperimentPlan plan, CancellationPtr, Done done) override {
    done(LiveExperiment{.plan = std::move(plan)});
  }
  absl::StatusOr<LiveExperiment> Get(std::string_view name) const override {
    return LiveExperiment{.plan = {.name = std::string(name)}};
  }
  std::vector<LiveExperiment> List() const override { return {}; }
  absl::StatusOr<LiveExperiment> Stop(std::string_view name) override { return Get(name); }
  absl::Status Delete(std::string_view) override { return absl::OkStatus(); }

  std::unique_ptr<RoutedRequest> Route(std::string_view model, std::string_view key) override {
    if (arm == nullptr || model != "vit") return nullptr;
    heard.push_back("route " + std::string(key));
    return std::make_unique<Routed>(*this);
  }

 private:
  class Routed final : public RoutedRequest {
   public:
    explicit Routed(FakeLiveExperiments& owner) : owner_(owner), model_(owner.arm) {}
    const std::shared_ptr<const ServingModel>& model() const override { return model_; }
    const std::string& experiment() const override { return experiment_; }
    const std::string& arm() const override { return arm_; }
    void OnRead(const InferenceRequest& request, int64_t input_bytes, MemoryBudget&) override {
      owner_.heard.push_back("read " + request.id + " of " + std::to_string(input_bytes));
    }
    void OnResults(const InferenceResponse&) override { owner_.heard.emplace_back("results"); }
    void OnAnswered(absl::StatusCode code, const StageTimes&, Nanos allowed) override {
      owner_.allowed = allowed;
      owner_.heard.push_back("answered " + absl::StatusCodeToString(code));
    }
    void OnLeft() override {
      owner_.heard.emplace_back("left");
      if (owner_.on_left) owner_.on_left();
    }

   private:
    FakeLiveExperiments& owner_;
    const std::shared_ptr<const ServingModel> model_;
    const std::string experiment_ = "trial", arm_ = "vit:knn:k=9";
  };
};

}  // namespace fovea
