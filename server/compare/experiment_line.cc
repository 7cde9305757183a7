#include "server/compare/experiment_line.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/caller_cancelled.h"
#include "server/core/server_stopping.h"
#include "server/core/start_threads.h"

namespace fovea {

absl::StatusOr<std::unique_ptr<ExperimentLine>> ExperimentLine::Create(
    ExperimentLineOptions options) {
  std::unique_ptr<ExperimentLine> line(new ExperimentLine(std::move(options)));
  FOVEA_RETURN_IF_ERROR(
      StartThreads([&] { line->thread_ = std::thread([line = line.get()] { line->Work(); }); }));
  return line;
}

ExperimentLine::~ExperimentLine() { Stop(); }

absl::Status ExperimentLine::State::Cancelled() const { return CallerCancelled(name); }

void ExperimentLine::State::EndCancelled(uint64_t number) {
  Experiment experiment;
  {
    MutexLock lock(mutex);
    const auto found = waiting.find(number);
    if (found == waiting.end()) return;
    experiment = std::move(found->second.experiment);
    waiting.erase(found);
  }
  experiment.end(Cancelled());
}

void ExperimentLine::Add(Experiment experiment) {
  const CancellationPtr cancellation = experiment.cancellation;
  uint64_t number;
  {
    MutexLock lock(state_->mutex);
    number = state_->next++;
  }
  // Before it is in line, where it may run at once and set its own.
  cancellation->OnCancel([weak = std::weak_ptr(state_), number] {
    if (const auto state = weak.lock()) state->EndCancelled(number);
  });
  absl::Status refused;
  {
    MutexLock lock(state_->mutex);
    const bool waits = state_->running != nullptr || !state_->waiting.empty();
    std::optional<MemoryBudget::Hold> memory;
    if (waits && options_.waiting_memory != nullptr) memory = options_.waiting_memory->Open();
    if (state_->stopping) {
      refused = ServerStopping();
    } else if (state_->waiting.size() >= options_.max_waiting ||
               (memory && !memory->TryGrow(experiment.bytes))) {
      refused = Unavailable(options_.name + ".busy",
                            absl::StrCat("too many ", options_.what, " wait: try again later"));
    } else {
      if (experiment.wait && waits) experiment.wait();
      state_->waiting.emplace(
          number, State::Waiting{.experiment = std::move(experiment), .memory = std::move(memory)});
      state_->changed.NotifyAll();
    }
  }
  if (!refused.ok()) {
    cancellation->OnCancel(nullptr);
    experiment.end(std::move(refused));
  } else if (cancellation->Cancelled()) {
    state_->EndCancelled(number);  // before it was in line
  }
}

void ExperimentLine::Close() {
  CancellationPtr running;
  {
    MutexLock lock(state_->mutex);
    state_->stopping = true;
    running = state_->running;
    state_->changed.NotifyAll();
  }
  if (running != nullptr) running->Cancel();
}

void ExperimentLine::Stop() {
  Close();
  if (thread_.joinable()) thread_.join();
}

void ExperimentLine::Work() {
  State& state = *state_;
  for (;;) {
    Experiment experiment;
    bool stopping;
    {
      MutexLock lock(state.mutex);
      while (state.waiting.empty() && !state.stopping) state.changed.Wait(state.mutex);
      if (state.waiting.empty()) return;
      experiment = std::move(state.waiting.begin()->second.experiment);
      state.waiting.erase(state.waiting.begin());
      stopping = state.stopping;
      if (!stopping) state.running = experiment.cancellation;
    }
    absl::Status outcome = ServerStopping();
    if (!stopping) {
      outcome =
          experiment.cancellation->Cancelled() ? state.Cancelled() : OrOutOfMemory(experiment.run);
      experiment.cancellation->OnCancel(nullptr);
      MutexLock lock(state.mutex);
      state.running = nullptr;
      if (!outcome.ok() && state.stopping) {
        outcome = ServerStopping();
      } else if (!outcome.ok() && experiment.cancellation->Cancelled()) {
        outcome = state.Cancelled();
      }
    }
    experiment.end(std::move(outcome));
  }
}

}  // namespace fovea
