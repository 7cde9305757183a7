#include "server/compare/live/traffic_experiments.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/compare/live/experiment_plan.h"
#include "server/core/log.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

absl::Status AlreadyThere(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kAlreadyExists, reason, message);
}

// Of the arm's model, as it serves now. The view alone is kept: an unload of the model is not to
// wait until an arm over its weights has loaded.
absl::StatusOr<std::shared_ptr<const ModelView>> ViewOf(const ArmModel& arm,
                                                        const ModelCatalog& catalog) {
  FOVEA_ASSIGN_OR_RETURN(const auto model, catalog.Acquire(arm.model_name, arm.model_version));
  return model->view();
}

// A request, and where it went.
class SentRequest final : public RoutedRequest {
 public:
  SentRequest(std::shared_ptr<ShadowCopies> copies, std::shared_ptr<RunningExperiment> experiment,
              RunningExperiment::Choice choice)
      : copies_(std::move(copies)),
        experiment_(std::move(experiment)),
        choice_(std::move(choice)) {}

  const std::shared_ptr<const ServingModel>& model() const override { return choice_.model; }
  const std::string& experiment() const override { return experiment_->plan().name; }
  const std::string& arm() const override { return experiment_->arm_name(choice_.arm); }

  void OnRead(const InferenceRequest& request, int64_t input_bytes, MemoryBudget& memory) override {
    if (choice_.arm != 0) return;
    const std::optional<size_t> shadow = experiment_->NextCopy();
    if (!shadow) return;
    copy_ = copies_->TryCopy(experiment_, *shadow, request, choice_.model->view()->task,
                             input_bytes, memory);
  }
  void OnResults(const InferenceResponse& response) override {
    // Answers to what are no numbers say nothing of an arm.
    if (copy_ == nullptr || response.non_finite_input) return;
    copy_->OnBaseline(response);
    has_results_ = true;
  }
  void OnAnswered(absl::StatusCode code, const StageTimes& stages, Nanos allowed) override {
    experiment_->OnAnswered(choice_.arm, code, stages.total(), allowed);
    has_results_ = has_results_ && code == absl::StatusCode::kOk;
  }
  void OnLeft() override {
    if (copy_ != nullptr && has_results_) ShadowCopies::Submit(std::move(copy_));
  }

 private:
  const std::shared_ptr<ShadowCopies> copies_;  // of which copy_ is
  const std::shared_ptr<RunningExperiment> experiment_;
  const RunningExperiment::Choice choice_;
  std::unique_ptr<ShadowCopies::Copy> copy_;
  bool has_results_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TrafficExperiments>> TrafficExperiments::Create(
    const TrafficExperimentsOptions& options, const ModelCatalog& catalog, LeaseVariant lease,
    Clock& clock, ExperimentObserverFactory observe) {
  std::unique_ptr<TrafficExperiments> experiments(
      new TrafficExperiments(options, catalog, std::move(lease), clock, std::move(observe)));
  FOVEA_ASSIGN_OR_RETURN(
      experiments->copies_,
      ShadowCopies::Create({.device_threads = options.device_threads,
                            .await_idle = options.await_idle,
                            .on_tick = [live = experiments.get()] { live->Tick(); }},
                           clock));
  FOVEA_ASSIGN_OR_RETURN(
      experiments->line_,
      ExperimentLine::Create(
          {.name = "experiment", .what = "experiments", .max_waiting = options.max_waiting}));
  return experiments;
}

TrafficExperiments::~TrafficExperiments() {
  Stop();
  MutexLock lock(mutex_);
  for (const auto& [name, experiment] : experiments_) {
    experiment->End(ExperimentState::kStopped, "the server stops");
    experiment->TakeLeases();
  }
}

void TrafficExperiments::Stop() {
  if (line_ != nullptr) line_->Stop();
  if (copies_ != nullptr) copies_->Stop();
}

absl::Status TrafficExperiments::Claim(const ExperimentPlan& plan) {
  MutexLock lock(mutex_);
  if (experiments_.contains(plan.name) || starting_.contains(plan.name)) {
    return AlreadyThere("experiment.exists",
                        absl::StrCat("there is an experiment called ", plan.name));
  }
  const auto running = by_model_.find(plan.model_name);
  if (claimed_.contains(plan.model_name) ||
      (running != by_model_.end() && running->second->running())) {
    return AlreadyThere(
        "experiment.model_taken",
        absl::StrCat("another experiment has the traffic of ", InQuotes(plan.model_name)));
  }
  const auto runs = [](const auto& entry) { return entry.second->running(); };
  const auto running_now = static_cast<size_t>(std::ranges::count_if(by_model_, runs));
  if (starting_.size() + running_now >= options_.max_running) {
    return ResourceExhausted("experiment.too_many",
                             absl::StrCat(options_.max_running, " experiments run, and no more"));
  }
  starting_.insert(plan.name);
  claimed_.insert(plan.model_name);
  return absl::OkStatus();
}

void TrafficExperiments::Abandon(const ExperimentPlan& plan) {
  MutexLock lock(mutex_);
  starting_.erase(plan.name);
  claimed_.erase(plan.model_name);
}

void TrafficExperiments::Start(ExperimentPlan plan, CancellationPtr cancellation, Done done) {
  absl::Status possible = CheckPlan(plan);
  if (possible.ok()) possible = Claim(plan);
  if (!possible.ok()) return done(std::move(possible));
  const auto shared_plan = std::make_shared<const ExperimentPlan>(std::move(plan));
  line_->AddFor<LiveExperiment>(
      cancellation, /*bytes=*/0, /*wait=*/nullptr,
      [this, shared_plan, cancellation]() -> absl::StatusOr<LiveExperiment> {
        FOVEA_ASSIGN_OR_RETURN(ExperimentPtr experiment, Load(*shared_plan, cancellation));
        LiveExperiment started = experiment->Report();
        Publish(std::move(experiment));
        return started;
      },
      [this, shared_plan, done = std::move(done)](absl::StatusOr<LiveExperiment> started) {
        if (!started.ok()) Abandon(*shared_plan);
        done(std::move(started));
      });
}

absl::StatusOr<ArmModel> TrafficExperiments::LoadArm(const Variant& variant,
                                                     CancellationPtr cancellation) {
  ArmModel arm{.model_name = variant.model_name, .model_version = variant.model_version};
  FOVEA_ASSIGN_OR_RETURN(arm.view, ViewOf(arm, catalog_));
  if (!variant.attention.empty() && variant.attention != arm.view->attention) {
    if (lease_ == nullptr) {
      return Unimplemented("experiment.no_variants",
                           "this server has no other attentions served than its models'");
    }
    FOVEA_ASSIGN_OR_RETURN(LeasedModel leased, lease_(variant, std::move(cancellation)));
    arm.model_name = std::move(leased.model_name);
    arm.model_version = std::move(leased.model_version);
    arm.weights_of_attention = std::move(leased.weights_of_attention);
    arm.lease = std::move(leased.lease);
    arm.source = {.model_name = variant.model_name, .model_version = variant.model_version};
    arm.source_view = std::move(arm.view);
    FOVEA_ASSIGN_OR_RETURN(arm.view, ViewOf(arm, catalog_));
  }
  arm.name = ArmName(variant, *arm.view);
  return arm;
}

absl::StatusOr<TrafficExperiments::ExperimentPtr> TrafficExperiments::Load(
    const ExperimentPlan& plan, CancellationPtr cancellation) {
  std::vector<ArmModel> arms;
  for (const ExperimentArm& planned : plan.arms) {
    FOVEA_ASSIGN_OR_RETURN(ArmModel arm, LoadArm(planned.variant, cancellation));
    if (arms.empty() && arm.model_name != plan.model_name) {
      return InvalidArgument("experiment.bad_plan",
                             "the baseline is the model with its own attention: what callers get "
                             "without an experiment");
    }
    if (!arms.empty()) FOVEA_RETURN_IF_ERROR(CheckSameKind(*arm.view, *arms.front().view));
    const auto is_same = [&](const ArmModel& other) { return other.name == arm.name; };
    if (std::ranges::any_of(arms, is_same)) {
      return InvalidArgument("experiment.bad_plan",
                             absl::StrCat("two arms are the same: ", arm.name));
    }
    arms.push_back(std::move(arm));
  }
  return std::make_shared<RunningExperiment>(
      plan, std::move(arms),
      RunningExperiment::Environment{
          .catalog = catalog_,
          .clock = clock_,
          .device_threads = options_.device_threads,
          .measured = options_.provenance ? options_.provenance() : Provenance()},
      observe_);
}

void TrafficExperiments::Publish(ExperimentPtr experiment) {
  const ExperimentPlan& plan = experiment->plan();
  std::string arms;
  for (size_t i = 0; i < plan.arms.size(); ++i) {
    absl::StrAppend(&arms, i == 0 ? "" : ", ", experiment->arm_name(i), " by ", plan.arms[i].weight,
                    plan.arms[i].shadow ? " and copies" : "");
  }
  Log(LogLevel::kInfo, absl::StrCat("the experiment ", plan.name, " has the traffic of ",
                                    plan.model_name, " from now on: ", arms));
  std::vector<ExperimentPtr> forgotten;
  MutexLock lock(mutex_);
  by_model_[plan.model_name] = experiment;
  experiments_.emplace(plan.name, std::move(experiment));
  // No moment at which it counts twice.
  starting_.erase(plan.name);
  claimed_.erase(plan.model_name);
  CountRunning();
  // Not by ticks alone, which wait for copies: who starts and stops in a loop would be faster.
  forgotten = TakeOldest();
}

std::vector<TrafficExperiments::ExperimentPtr> TrafficExperiments::TakeOldest() {
  std::vector<ExperimentPtr> taken;
  const auto has_ended = [](const auto& entry) { return !entry.second->running(); };
  const auto by_end = [](const auto& a, const auto& b) {
    return a.second->ended_at() < b.second->ended_at();
  };
  while (std::cmp_greater(std::ranges::count_if(experiments_, has_ended), options_.max_ended)) {
    // Those that run have not ended: kNever is the latest of all.
    const auto oldest = std::ranges::min_element(experiments_, by_end);
    oldest->second->Forget();
    taken.push_back(std::move(oldest->second));
    experiments_.erase(oldest);
  }
  return taken;
}

absl::StatusOr<TrafficExperiments::ExperimentPtr> TrafficExperiments::Find(
    std::string_view name) const {
  MutexLock lock(mutex_);
  const auto found = experiments_.find(name);
  if (found != experiments_.end()) return found->second;
  return NotFound("experiment.not_found",
                  absl::StrCat("there is no experiment called ", InQuotes(name)));
}

absl::StatusOr<LiveExperiment> TrafficExperiments::Get(std::string_view name) const {
  FOVEA_ASSIGN_OR_RETURN(const ExperimentPtr experiment, Find(name));
  return experiment->Report();
}

std::vector<LiveExperiment> TrafficExperiments::List() const {
  std::vector<ExperimentPtr> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, experiment] : experiments_) all.push_back(experiment);
  }
  std::vector<LiveExperiment> reports;
  for (const ExperimentPtr& experiment : all) reports.push_back(experiment->Report());
  return reports;
}

absl::StatusOr<LiveExperiment> TrafficExperiments::Stop(std::string_view name) {
  FOVEA_ASSIGN_OR_RETURN(const ExperimentPtr experiment, Find(name));
  experiment->End(ExperimentState::kStopped, "a caller has stopped it");
  copies_->Wake();  // which lets its models go, and the oldest of too many that have ended
  return experiment->Report();
}

absl::Status TrafficExperiments::Delete(std::string_view name) {
  FOVEA_ASSIGN_OR_RETURN(const ExperimentPtr experiment, Find(name));
  if (experiment->running()) {
    return FailedPrecondition(
        "experiment.running",
        absl::StrCat("the experiment ", experiment->plan().name, " runs: stop it first"));
  }
  // Goes with the last request that is under way there otherwise, on whatever thread that is.
  std::vector<std::shared_ptr<const void>> leases;
  MutexLock lock(mutex_);
  const auto found = experiments_.find(name);
  // Another caller may have been faster, and a third have started one of that name.
  if (found == experiments_.end() || found->second != experiment) return absl::OkStatus();
  // Before there can be another of its name: requests that are under way may hold this one longer.
  experiment->Forget();
  leases = experiment->TakeLeases();
  experiments_.erase(found);
  const auto by_model = by_model_.find(experiment->plan().model_name);
  if (by_model != by_model_.end() && by_model->second == experiment) by_model_.erase(by_model);
  CountRunning();
  return absl::OkStatus();
}

std::unique_ptr<RoutedRequest> TrafficExperiments::Route(std::string_view model,
                                                         std::string_view key) {
  if (running_ == 0) return nullptr;
  ExperimentPtr experiment;
  {
    MutexLock lock(mutex_);
    const auto found = by_model_.find(model);
    if (found == by_model_.end()) return nullptr;
    experiment = found->second;
  }
  std::optional<RunningExperiment::Choice> choice = experiment->Choose(key);
  if (!choice) return nullptr;
  return std::make_unique<SentRequest>(copies_, std::move(experiment), *std::move(choice));
}

void TrafficExperiments::Tick() {
  std::vector<ExperimentPtr> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, experiment] : experiments_) all.push_back(experiment);
  }
  for (const ExperimentPtr& experiment : all) {
    experiment->Check();
    experiment->TakeLeases();  // and lets them go here
  }
  std::vector<ExperimentPtr> forgotten;
  MutexLock lock(mutex_);
  std::erase_if(by_model_, [](const auto& entry) { return !entry.second->running(); });
  CountRunning();
  forgotten = TakeOldest();
}

}  // namespace fovea
