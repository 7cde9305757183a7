#include "server/compare/experiment_line.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/status.h"
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

absl::Status ExperimentLine::Cancelled() const {
  return fovea::Cancelled(options_.name + ".cancelled", "the caller cancelled the call");
}

std::vector<ExperimentLine::Experiment> ExperimentLine::TakeCancelled() {
  std::vector<Experiment> cancelled;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    if (next->cancellation->Cancelled()) {
      cancelled.push_back(std::move(*next));
      next = waiting_.erase(next);
    } else {
      ++next;
    }
  }
  return cancelled;
}

void ExperimentLine::Add(Experiment experiment) {
  absl::Status refused;
  std::vector<Experiment> cancelled;
  {
    MutexLock lock(mutex_);
    cancelled = TakeCancelled();
    if (stopping_) {
      refused = ServerStopping();
    } else if (waiting_.size() >= options_.max_waiting) {
      refused = Unavailable(options_.name + ".busy",
                            absl::StrCat("too many ", options_.what, " wait: try again later"));
    } else {
      if (experiment.wait && (running_ != nullptr || !waiting_.empty())) experiment.wait();
      waiting_.push_back(std::move(experiment));
      changed_.NotifyAll();
    }
  }
  for (const Experiment& one : cancelled) one.end(Cancelled());
  if (!refused.ok()) experiment.end(std::move(refused));
}

void ExperimentLine::Close() {
  CancellationPtr running;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    running = running_;
    changed_.NotifyAll();
  }
  if (running != nullptr) running->Cancel();
}

void ExperimentLine::Stop() {
  Close();
  if (thread_.joinable()) thread_.join();
}

void ExperimentLine::Work() {
  for (;;) {
    Experiment experiment;
    bool stopping;
    {
      MutexLock lock(mutex_);
      running_ = nullptr;
      while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
      if (waiting_.empty()) return;
      experiment = std::move(waiting_.front());
      waiting_.pop_front();
      stopping = stopping_;
      if (!stopping) running_ = experiment.cancellation;
    }
    absl::Status outcome = ServerStopping();
    if (!stopping) {
      outcome = experiment.cancellation->Cancelled() ? Cancelled() : OrOutOfMemory(experiment.run);
      experiment.cancellation->OnCancel(nullptr);
      MutexLock lock(mutex_);
      if (!outcome.ok() && stopping_) {
        outcome = ServerStopping();
      } else if (!outcome.ok() && experiment.cancellation->Cancelled()) {
        outcome = Cancelled();
      }
    }
    experiment.end(std::move(outcome));
  }
}

}  // namespace fovea
