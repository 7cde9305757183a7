#include "server/compare/live/shadow_copies.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/start_threads.h"

namespace fovea {
namespace {

bool HasOneImage(const InferenceRequest& request) {
  if (const auto* const files = std::get_if<ImageFiles>(&request.input)) {
    return files->files.size() == 1;
  }
  const auto& tensors = std::get<NamedTensors>(request.input);
  return tensors.size() == 1 && !tensors[0].shape.empty() && tensors[0].shape[0] == 1;
}

std::unique_ptr<InferenceRequest> CopyOf(const InferenceRequest& request, RequestMemory& memory) {
  auto copy = std::make_unique<InferenceRequest>();
  copy->model_name = request.model_name;
  copy->input = request.input;
  copy->options = request.options;
  if (auto* const wanted = std::get_if<WantedTensors>(&copy->options)) {
    for (RequestedOutput& output : wanted->outputs) output.shared_memory.reset();
  }
  copy->priority = request.priority;
  copy->memory = &memory;
  copy->idle_only = true;
  return copy;
}

// Whether a copy that has ended so says nothing of its arm: it has made way for others, they have
// the memory or the threads, or the model goes. Anything else is what a caller of the arm would
// have got, where the baseline has answered.
bool IsNoFault(const absl::Status& status) {
  if (absl::IsCancelled(status)) return true;
  constexpr std::string_view kReasons[] = {
      "queue.not_idle", "queue.draining",        "queue.drain_timeout", "image.queue_full",
      "request.memory", "server.request_memory", "server.out_of_memory"};
  return std::ranges::find(kReasons, ReasonOf(status)) != std::end(kReasons);
}

}  // namespace

// Of a run. Shared with it: its callback may still leave Set when the thread goes on.
struct ShadowCopies::Outcome {
  void Set(absl::StatusOr<InferenceResponse> answered, const StageTimes& took) {
    MutexLock lock(mutex);
    response = std::move(answered);
    stages = took;
    done = true;
    changed.NotifyAll();
  }
  void Await() {
    MutexLock lock(mutex);
    while (!done) changed.Wait(mutex);
  }

  Mutex mutex;
  CondVar changed;
  bool done = false;
  absl::StatusOr<InferenceResponse> response = absl::UnknownError("");
  StageTimes stages;
};

ShadowCopies::Copy::~Copy() {
  if (answered_ && !counted_) experiment_->OnSkipped(arm_);
  --copies_.open_;
}

void ShadowCopies::Copy::OnBaseline(const InferenceResponse& response) {
  answered_ = true;
  // Where there is no memory for it, it is not compared.
  const absl::Status kept = OrOutOfMemory([&]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(memory_->Take(ComparableBytes(response.results)));
    baseline_ = TakeComparable(response.results, task_);
    return absl::OkStatus();
  });
  if (!kept.ok()) baseline_.reset();
}

absl::StatusOr<std::unique_ptr<ShadowCopies>> ShadowCopies::Create(Options options, Clock& clock) {
  std::unique_ptr<ShadowCopies> copies(new ShadowCopies(std::move(options), clock));
  FOVEA_RETURN_IF_ERROR(StartThreads(
      [&] { copies->thread_ = std::thread([copies = copies.get()] { copies->Work(); }); }));
  return copies;
}

std::unique_ptr<ShadowCopies::Copy> ShadowCopies::TryCopy(
    std::shared_ptr<RunningExperiment> experiment, size_t arm, const InferenceRequest& request,
    VisionTask task, int64_t input_bytes, MemoryBudget& memory) {
  if (stopping_ || request.draw || !HasOneImage(request)) return nullptr;
  const bool has_room = ++open_ <= limits::kMaxShadowCopies;
  std::unique_ptr<Copy> copy(new Copy(*this, std::move(experiment), arm));
  copy->answered_ = true;  // given up here it is skipped
  if (!has_room || !copy->experiment_->AllowsCopy()) return nullptr;
  const absl::Status copied = OrOutOfMemory([&]() -> absl::Status {
    copy->memory_ = std::make_unique<RequestMemory>(memory);
    // The request is kept while a copy of it runs.
    FOVEA_RETURN_IF_ERROR(copy->memory_->Take(
        2 * (limits::kRequestRecordBytes + input_bytes + HeldBytes(request.options))));
    copy->request_ = CopyOf(request, *copy->memory_);
    return absl::OkStatus();
  });
  if (!copied.ok()) return nullptr;
  copy->task_ = task;
  copy->answered_ = false;  // if the baseline fails it was no request to copy
  return copy;
}

void ShadowCopies::Submit(std::unique_ptr<Copy> copy) {
  ShadowCopies& copies = copy->copies_;
  MutexLock lock(copies.mutex_);
  if (copies.stopping_) return;  // and is destroyed, when the lock is released
  copies.waiting_.push_back(std::move(copy));
  copies.changed_.NotifyAll();
}

void ShadowCopies::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.NotifyAll();
}

void ShadowCopies::Stop() {
  CancellationPtr running;
  std::deque<std::unique_ptr<Copy>> waiting;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    running = running_;
    waiting.swap(waiting_);
    changed_.NotifyAll();
  }
  if (running != nullptr) running->Cancel();
  waiting.clear();
  if (thread_.joinable()) thread_.join();
}

void ShadowCopies::Work() {
  Nanos next_tick = clock_.Now() + options_.tick;
  for (;;) {
    std::unique_ptr<Copy> copy;
    bool tick;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && !woken_ && waiting_.empty() && clock_.Now() < next_tick) {
        clock_.WaitUntil(changed_, mutex_, next_tick);
      }
      if (stopping_) return;
      tick = std::exchange(woken_, false) || clock_.Now() >= next_tick;
      if (!waiting_.empty()) {
        copy = std::move(waiting_.front());
        waiting_.pop_front();
      }
    }
    if (tick) {
      options_.on_tick();
      next_tick = clock_.Now() + options_.tick;
    }
    if (copy != nullptr) Run(*copy);
  }
}

std::shared_ptr<ShadowCopies::Outcome> ShadowCopies::RunOnce(
    RunningExperiment& experiment, size_t arm, std::unique_ptr<InferenceRequest> request) {
  const Nanos until = options_.most_wait == kNever ? kNever : clock_.Now() + options_.most_wait;
  if (!options_.await_idle(until)) return nullptr;
  std::shared_ptr<const ServingModel> model = experiment.Model(arm);
  if (model == nullptr) return nullptr;
  request->stages = StageTimes(clock_.Now());
  const CancellationPtr cancellation = request->cancellation;
  {
    MutexLock lock(mutex_);
    if (stopping_) return nullptr;
    running_ = cancellation;
  }
  auto outcome = std::make_shared<Outcome>();
  // The handle goes with the request: a model that is unloaded waits for one block at most.
  ServingModel::Infer(
      std::move(model), std::move(request),
      [outcome](absl::StatusOr<InferenceResponse> response, const StageTimes& stages) {
        outcome->Set(std::move(response), stages);
      });
  outcome->Await();
  {
    MutexLock lock(mutex_);
    running_ = nullptr;
  }
  // As GuardRails.max_shadow_share says. Of one that was given up it is not known how many threads
  // it had.
  const StageTimes& stages = outcome->stages;
  const int threads =
      outcome->response.ok() ? outcome->response->receipt.batch_threads : options_.device_threads;
  experiment.OnSpent(stages[Stage::kDecode] + stages[Stage::kPreprocess] +
                     stages[Stage::kCompute] * threads + stages[Stage::kPostprocess]);
  return outcome;
}

std::optional<bool> ShadowCopies::Differs(const Copy& copy, const InferenceResponse& response) {
  std::optional<bool> differs;
  (void)OrOutOfMemory([&]() -> absl::Status {
    const auto answer = TakeComparable(response.results, copy.task_);
    if (answer && copy.baseline_) differs = Differ(*answer, *copy.baseline_);
    return absl::OkStatus();
  });
  return differs;
}

void ShadowCopies::Run(Copy& copy) {
  RunningExperiment& experiment = *copy.experiment_;
  if (!experiment.AllowsCopy()) return;
  const std::vector<ArmTests::CopyRun> runs = experiment.CopyRuns(copy.arm_);
  ArmTests::Copy seen;
  struct Timed {
    Nanos compute = 0;
    int threads = 0;
  };
  Timed arm, baseline;
  const int64_t held = copy.memory_->bytes();
  for (size_t i = 0; i < runs.size(); ++i) {
    copy.memory_->KeepOnly(held);  // gives back what the previous run took
    const ArmTests::CopyRun& run = runs[i];
    std::unique_ptr<InferenceRequest> request;
    if (i + 1 == runs.size()) {
      request = std::move(copy.request_);
    } else if (!OrOutOfMemory([&] {
                  request = CopyOf(*copy.request_, *copy.memory_);
                  return absl::OkStatus();
                }).ok()) {
      break;
    }
    const auto outcome = RunOnce(experiment, run.of_baseline ? 0 : copy.arm_, std::move(request));
    if (outcome == nullptr || IsNoFault(outcome->response.status())) break;
    const bool ok = outcome->response.ok();
    if (!run.of_baseline) seen.failed |= !ok;
    if (!run.of_baseline && !copy.counted_) {
      copy.counted_ = true;
      if (ok) seen.differs = Differs(copy, *outcome->response);
    }
    if (!ok && !run.of_baseline) break;
    if (!ok || !run.timed) continue;
    (run.of_baseline ? baseline : arm) = {outcome->stages[Stage::kCompute],
                                          outcome->response->receipt.batch_threads};
  }
  if (!copy.counted_) return;
  // Times on different numbers of threads do not compare.
  if (arm.compute > 0 && baseline.compute > 0 && arm.threads == baseline.threads) {
    seen.latency_ratio = static_cast<double>(arm.compute) / baseline.compute;
  }
  experiment.OnCopy(copy.arm_, seen);
}

}  // namespace fovea
