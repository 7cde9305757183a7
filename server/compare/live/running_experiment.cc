#include "server/compare/live/running_experiment.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/compare/live/experiment_plan.h"
#include "server/core/log.h"

namespace fovea {
namespace {

constexpr size_t kTests = 3;  // of each arm

// A deadline that passes says something of an arm where the caller had given so many times what the
// baseline takes. Lower: requests that the baseline, too, often misses end experiments.
constexpr double kFairTimes = 2;

std::vector<std::string> NamesOf(const std::vector<ArmModel>& arms) {
  std::vector<std::string> names;
  for (const ArmModel& arm : arms) names.push_back(arm.name);
  return names;
}

TrafficSplit SplitOf(const ExperimentPlan& plan, const std::vector<ArmModel>& arms) {
  std::vector<TrafficSplit::Arm> weighed;
  for (size_t i = 0; i < arms.size(); ++i) {
    weighed.push_back({arms[i].name, plan.arms[i].weight});
  }
  return {plan.name, std::move(weighed)};
}

enum class Answered { kOk, kFailed, kByCaller };

// Whose doing a request's end is: what its caller did wrong, or broke off, says nothing of an arm.
// Failures have the codes that deploy/prometheus/recording_rules.yml counts as the server's fault.
Answered Judge(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return Answered::kOk;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      return Answered::kFailed;
    default:
      return Answered::kByCaller;
  }
}

double Ms(Nanos time) { return static_cast<double>(time) / kMillisecond; }

}  // namespace

RunningExperiment::RunningExperiment(ExperimentPlan plan, std::vector<ArmModel> arms,
                                     const Environment& environment,
                                     const ExperimentObserverFactory& observe)
    : plan_(std::move(plan)),
      environment_(environment),
      names_(NamesOf(arms)),
      split_(SplitOf(plan_, arms)),
      started_(environment.clock.Now()),
      draw_((uint64_t{std::random_device()()} << 32) | std::random_device()()),
      budget_(plan_.guard_rails.max_shadow_share, environment.device_threads, started_),
      observer_(observe(plan_, names_)) {
  // All intervals together miss the truth with the plan's probability at most (Bonferroni).
  const double error =
      plan_.error_probability / static_cast<double>(kTests * (plan_.arms.size() - 1));
  for (size_t i = 0; i < arms.size(); ++i) {
    arms_.push_back({.model = std::move(arms[i])});
    if (i > 0) tests_.emplace_back(plan_, error, /*by_windows=*/plan_.arms[i].weight > 0);
    if (plan_.arms[i].shadow) shadows_.push_back(i);
  }
}

Nanos RunningExperiment::ended_at() const {
  MutexLock lock(mutex_);
  return ended_;
}

void RunningExperiment::Forget() {
  MutexLock lock(mutex_);
  observer_.reset();
}

LiveExperiment RunningExperiment::Report() const {
  MutexLock lock(mutex_);
  LiveExperiment experiment{.plan = plan_,
                            .state = state_,
                            .reason = reason_,
                            .running = std::min(ended_, environment_.clock.Now()) - started_,
                            .measured = environment_.measured};
  for (size_t i = 0; i < arms_.size(); ++i) {
    const Arm& arm = arms_[i];
    ArmReport& report = experiment.arms.emplace_back();
    report.name = names_[i];
    report.model_name = arm.model.view->name;
    report.model_version = arm.model.view->version;
    report.attention = arm.model.view->attention;
    report.weights_of_attention = arm.model.weights_of_attention;
    report.requests = arm.requests;
    report.failures = arm.failures;
    report.shadow_requests = arm.copies;
    report.shadow_skipped = arm.skipped;
    if (arm.latencies > 0) {
      report.mean_latency_ms = arm.latency_sum_ms / static_cast<double>(arm.latencies);
    }
    if (i == 0) continue;
    report.latency_ratio = tests_[i - 1].latency_ratio();
    report.disagreement = tests_[i - 1].disagreement();
    report.error_excess = tests_[i - 1].error_excess();
  }
  return experiment;
}

absl::Status RunningExperiment::CheckView(size_t arm,
                                          const std::shared_ptr<const ModelView>& view) {
  const ModelView& before = *arms_[arm].model.view;
  if (&before == view.get()) return absl::OkStatus();
  const auto has_its_weights = [&](const Arm& of) { return of.model.source_view.get() == &before; };
  if (view->attention != before.attention || view->version != before.version ||
      view->untrained != before.untrained || std::ranges::any_of(arms_, has_its_weights)) {
    return FailedPrecondition("experiment.loaded_anew",
                              absl::StrCat(view->name, " was loaded anew"));
  }
  for (size_t i = 0; i < arms_.size(); ++i) {
    // A new baseline is held against all others, another arm against the baseline.
    if ((arm == 0) == (i == 0)) continue;
    FOVEA_RETURN_IF_ERROR(arm == 0 ? CheckSameKind(*arms_[i].model.view, *view)
                                   : CheckSameKind(*view, *arms_[0].model.view));
    if (arm != 0) break;
  }
  arms_[arm].model.view = view;
  return absl::OkStatus();
}

absl::Status RunningExperiment::CheckSource(size_t arm) {
  Variant source;
  std::shared_ptr<const ModelView> view;
  {
    MutexLock lock(mutex_);
    source = arms_[arm].model.source;
    view = arms_[arm].model.source_view;
  }
  if (view == nullptr) return absl::OkStatus();
  FOVEA_ASSIGN_OR_RETURN(const auto now,
                         environment_.catalog.Acquire(source.model_name, source.model_version));
  if (now->view() == view) return absl::OkStatus();
  return FailedPrecondition("experiment.loaded_anew", absl::StrCat(view->name, " was loaded anew"));
}

std::shared_ptr<const ServingModel> RunningExperiment::Model(size_t arm) {
  std::string name, version;
  {
    MutexLock lock(mutex_);
    if (state_ != ExperimentState::kRunning) return nullptr;
    name = arms_[arm].model.model_name;
    version = arms_[arm].model.model_version;
  }
  absl::StatusOr<std::shared_ptr<const ServingModel>> model =
      environment_.catalog.Acquire(name, version);
  absl::Status fits = model.status();
  if (fits.ok()) {
    MutexLock lock(mutex_);
    fits = CheckView(arm, (*model)->view());
  }
  if (fits.ok()) return *std::move(model);
  End(ExperimentState::kModelGone,
      absl::StrCat("the model of ", names_[arm],
                   " is gone, or another: ", std::string(fits.message())));
  return nullptr;
}

std::optional<RunningExperiment::Choice> RunningExperiment::Choose(std::string_view key) {
  if (!running_) return std::nullopt;
  Choice choice;
  choice.arm = key.empty() ? split_.Choose(draw_.fetch_add(1)) : split_.Choose(key);
  choice.model = Model(choice.arm);
  if (choice.model == nullptr) return std::nullopt;
  return choice;
}

bool RunningExperiment::IsFair(Nanos allowed) const {
  const Arm& baseline = arms_.front();
  if (allowed == kNever) return true;
  if (baseline.latencies == 0) return false;
  const double mean_ms = baseline.latency_sum_ms / static_cast<double>(baseline.latencies);
  return Ms(allowed) >= kFairTimes * mean_ms;
}

void RunningExperiment::OnAnswered(size_t arm, absl::StatusCode code, Nanos latency,
                                   Nanos allowed) {
  const Answered answered = Judge(code);
  if (answered == Answered::kByCaller) return;
  const bool failed = answered == Answered::kFailed;
  {
    MutexLock lock(mutex_);
    if (code == absl::StatusCode::kDeadlineExceeded && !IsFair(allowed)) return;
    Arm& of = arms_[arm];
    ++of.requests;
    if (failed) {
      ++of.failures;
    } else {
      ++of.latencies;
      of.latency_sum_ms += Ms(latency);
    }
    Count(arm, failed ? ArmOutcome::kFailed : ArmOutcome::kOk);
    const Nanos now = environment_.clock.Now();
    // Answers that were under way when it ended are counted, and change nothing.
    for (size_t i = 1; i < arms_.size() && state_ == ExperimentState::kRunning; ++i) {
      if (arm != 0 && arm != i) continue;
      if (tests(i).OnAnswer(/*of_baseline=*/arm == 0, failed, latency, now)) TellTests(i);
    }
  }
  LogEnd();
}

void RunningExperiment::Count(size_t arm, ArmOutcome outcome) {
  if (observer_ != nullptr) observer_->OnRequest(arm, outcome);
}

// Only while it runs, when it has an observer.
void RunningExperiment::TellTests(size_t arm) {
  const ArmTests& now = tests(arm);
  observer_->OnTests(arm, now.latency_ratio(), now.disagreement(), now.error_excess());
  if (std::optional<std::string> broken = now.Broken(plan_.guard_rails, names_[arm])) {
    EndLocked(ExperimentState::kGuardRail, *std::move(broken));
  }
}

std::optional<size_t> RunningExperiment::NextCopy() {
  if (shadows_.empty() || !running_) return std::nullopt;
  MutexLock lock(mutex_);
  return shadows_[next_shadow_++ % shadows_.size()];
}

bool RunningExperiment::AllowsCopy() {
  MutexLock lock(mutex_);
  return state_ == ExperimentState::kRunning && budget_.Allows(environment_.clock.Now());
}

void RunningExperiment::OnSkipped(size_t arm) {
  MutexLock lock(mutex_);
  ++arms_[arm].skipped;
  Count(arm, ArmOutcome::kShadowSkipped);
}

void RunningExperiment::OnSpent(Nanos thread_time) {
  MutexLock lock(mutex_);
  budget_.Spend(thread_time, environment_.clock.Now());
}

std::vector<ArmTests::CopyRun> RunningExperiment::CopyRuns(size_t arm) const {
  MutexLock lock(mutex_);
  return tests_[arm - 1].NextCopy();
}

void RunningExperiment::OnCopy(size_t arm, const ArmTests::Copy& copy) {
  {
    MutexLock lock(mutex_);
    ++arms_[arm].copies;
    Count(arm, ArmOutcome::kShadow);
    if (state_ != ExperimentState::kRunning) return;
    tests(arm).OnCopy(copy);
    TellTests(arm);
  }
  LogEnd();
}

void RunningExperiment::End(ExperimentState why, std::string reason) {
  {
    MutexLock lock(mutex_);
    EndLocked(why, std::move(reason));
  }
  LogEnd();
}

void RunningExperiment::EndLocked(ExperimentState why, std::string reason) {
  if (state_ != ExperimentState::kRunning) return;
  state_ = why;
  reason_ = std::move(reason);
  ended_ = environment_.clock.Now();
  running_ = false;
  observer_->OnEnded(why);
}

void RunningExperiment::LogEnd() {
  if (running_) return;
  std::string line;
  bool by_itself;
  {
    MutexLock lock(mutex_);
    if (std::exchange(logged_, true)) return;
    by_itself = state_ == ExperimentState::kGuardRail || state_ == ExperimentState::kModelGone;
    line = absl::StrCat("the experiment ", plan_.name, " of ", plan_.model_name,
                        " has ended: ", reason_);
  }
  Log(by_itself ? LogLevel::kWarning : LogLevel::kInfo, line);
}

void RunningExperiment::Check() {
  if (!running_) return;
  if (environment_.clock.Now() - started_ >= plan_.guard_rails.max_time) {
    return End(ExperimentState::kExpired,
               absl::StrCat("its ", plan_.guard_rails.max_time / kSecond, " seconds are over"));
  }
  for (size_t i = 0; i < names_.size(); ++i) {
    if (Model(i) == nullptr) return;
    if (const absl::Status source = CheckSource(i); !source.ok()) {
      return End(ExperimentState::kModelGone,
                 absl::StrCat("the model whose weights ", names_[i],
                              " has is gone, or another: ", std::string(source.message())));
    }
  }
}

std::vector<std::shared_ptr<const void>> RunningExperiment::TakeLeases() {
  std::vector<std::shared_ptr<const void>> leases;
  MutexLock lock(mutex_);
  if (state_ == ExperimentState::kRunning) return leases;
  for (Arm& arm : arms_) {
    if (arm.model.lease != nullptr) leases.push_back(std::exchange(arm.model.lease, nullptr));
  }
  return leases;
}

}  // namespace fovea
