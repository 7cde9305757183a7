#include "tests/client/fake_experiments.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/fovea/v1/experiment.grpc.pb.h"

namespace fovea::client {

using fovea::v1::Experiment;
using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

class FakeExperiments::Service final : public fovea::v1::ExperimentService::Service {
 public:
  Status StartExperiment(ServerContext* context, const fovea::v1::StartExperimentRequest* request,
                         Experiment* response) override {
    std::lock_guard lock(mutex_);
    const fovea::v1::ExperimentPlan& plan = request->plan();
    plans_.push_back(plan);
    if (plan.name() == "taken") {
      context->AddTrailingMetadata("fovea-reason", "experiment.exists");
      return {StatusCode::ALREADY_EXISTS, "there is an experiment 'taken'"};
    }
    Experiment& experiment = experiments_[plan.name()];
    *experiment.mutable_plan() = plan;
    experiment.mutable_plan()->set_error_probability(0.05);
    experiment.set_state(Experiment::RUNNING);
    for (const auto& arm : plan.arms()) {
      fovea::v1::ArmReport& report = *experiment.add_arms();
      const std::string& attention = arm.variant().attention();
      report.set_name(
          absl::StrCat(arm.variant().model_name(), ":", attention.empty() ? "dense" : attention));
      // Another attention is served as a model of its own.
      report.set_model_name(attention.empty() ? arm.variant().model_name() : "variant.of.it");
      report.set_model_version("1");
      report.set_attention(attention.empty() ? "dense" : attention);
      if (!attention.empty()) report.set_weights_of_attention("dense");
    }
    return Answer(experiment, response);
  }

  Status GetExperiment(ServerContext*, const fovea::v1::GetExperimentRequest* request,
                       Experiment* response) override {
    std::lock_guard lock(mutex_);
    Experiment* experiment = Find(request->name());
    if (experiment == nullptr) return NotFound(request->name());
    Look(*experiment);
    return Answer(*experiment, response);
  }

  Status ListExperiments(ServerContext*, const fovea::v1::ListExperimentsRequest*,
                         fovea::v1::ListExperimentsResponse* response) override {
    std::lock_guard lock(mutex_);
    for (const auto& [name, experiment] : experiments_) *response->add_experiments() = experiment;
    return Status::OK;
  }

  Status StopExperiment(ServerContext*, const fovea::v1::StopExperimentRequest* request,
                        Experiment* response) override {
    std::lock_guard lock(mutex_);
    Experiment* experiment = Find(request->name());
    if (experiment == nullptr) return NotFound(request->name());
    experiment->set_state(Experiment::STOPPED);
    experiment->set_reason("a caller stopped it");
    return Answer(*experiment, response);
  }

  Status DeleteExperiment(ServerContext*, const fovea::v1::DeleteExperimentRequest* request,
                          fovea::v1::DeleteExperimentResponse*) override {
    std::lock_guard lock(mutex_);
    Experiment* experiment = Find(request->name());
    if (experiment == nullptr) return NotFound(request->name());
    if (experiment->state() == Experiment::RUNNING) {
      return {StatusCode::FAILED_PRECONDITION, "the experiment runs: stop it first"};
    }
    experiments_.erase(request->name());
    return Status::OK;
  }

  std::mutex mutex_;
  std::vector<fovea::v1::ExperimentPlan> plans_;
  int end_at_look_ = 0;
  bool lose_an_arm_ = false;

 private:
  Experiment* Find(const std::string& name) {
    const auto found = experiments_.find(name);
    return found == experiments_.end() ? nullptr : &found->second;
  }

  static Status NotFound(const std::string& name) {
    return {StatusCode::NOT_FOUND, absl::StrCat("there is no experiment '", name, "'")};
  }

  void Look(Experiment& experiment) {
    if (experiment.state() != Experiment::RUNNING) return;
    const int look = ++looks_[experiment.plan().name()];
    experiment.set_running_seconds(60.5 * look);
    for (int i = 0; i < experiment.arms_size(); ++i) {
      fovea::v1::ArmReport& arm = *experiment.mutable_arms(i);
      const auto& planned = experiment.plan().arms(i);
      if (planned.weight() > 0) arm.set_requests(100 * static_cast<uint64_t>(look));
      if (planned.shadow()) {
        arm.set_shadow_requests(10 * static_cast<uint64_t>(look));
        arm.set_shadow_skipped(3);
      }
      arm.set_failures(2);
      arm.set_mean_latency_ms(i == 0 ? 4 : 4.72);
      if (i == 0) continue;
      fovea::v1::SequentialTest& ratio = *arm.mutable_latency_ratio();
      ratio.set_estimate(1.18);
      ratio.set_lower(look == 1 ? 0.9 : 1.12);
      ratio.set_upper(look == 1 ? 1.5 : 1.25);
      ratio.set_observations(static_cast<uint64_t>(look));
      ratio.set_verdict(look == 1 ? fovea::v1::SequentialTest::UNDECIDED
                                  : fovea::v1::SequentialTest::HIGHER);
    }
    if (look == end_at_look_) {
      experiment.set_state(Experiment::GUARD_RAIL);
      experiment.set_reason("the latency of an arm is above max_latency_ratio");
    }
  }

  Status Answer(const Experiment& experiment, Experiment* response) {
    *response = experiment;
    if (std::exchange(lose_an_arm_, false)) response->mutable_arms()->RemoveLast();
    return Status::OK;
  }

  std::map<std::string, Experiment> experiments_;
  std::map<std::string, int> looks_;
};

struct FakeExperiments::Parts {
  Service service;
  std::unique_ptr<grpc::Server> server;
};

FakeExperiments::FakeExperiments() : parts_(new Parts) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&parts_->service);
  parts_->server = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeExperiments::~FakeExperiments() {
  parts_->server->Shutdown(std::chrono::system_clock::now());
  parts_->server->Wait();
}

std::vector<fovea::v1::ExperimentPlan> FakeExperiments::plans() const {
  std::lock_guard lock(parts_->service.mutex_);
  return parts_->service.plans_;
}

void FakeExperiments::EndAtLook(int look) {
  std::lock_guard lock(parts_->service.mutex_);
  parts_->service.end_at_look_ = look;
}

void FakeExperiments::LoseAnArm() {
  std::lock_guard lock(parts_->service.mutex_);
  parts_->service.lose_an_arm_ = true;
}

}  // namespace fovea::client
