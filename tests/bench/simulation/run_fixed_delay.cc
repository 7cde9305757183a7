#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/bench/simulation/schedulers.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea::bench {
namespace {

struct Waiting {
  Nanos arrival;
  Nanos deadline;
  Nanos cancels;  // kNever when it does not
};

class FixedDelay {
 public:
  FixedDelay(const Workload& workload, int device_threads, const FixedDelayOptions& options)
      : workload_(workload),
        options_(options),
        free_threads_(device_threads),
        lines_(workload.models.size()),
        running_(workload.models.size()) {
    outcome_.arrived = static_cast<int64_t>(workload.arrivals.size());
  }

  Outcome Run() {
    const Nanos start = simulation_.now();
    size_t next = 0;
    std::function<void()> arrive = [&] {
      const Arrival& arrival = workload_.arrivals[next++];
      const Nanos now = simulation_.now();
      lines_[arrival.model].push_back({now, now + arrival.patience,
                                       arrival.cancels == kNever ? kNever : now + arrival.cancels});
      Start();
      // The time at which it is due, if nothing fills its batch before.
      simulation_.At(now + options_.max_queue_delay, [this] { Start(); });
      if (next < workload_.arrivals.size()) {
        simulation_.At(start + workload_.arrivals[next].at, arrive);
      }
    };
    if (!workload_.arrivals.empty()) simulation_.At(start + workload_.arrivals[0].at, arrive);
    simulation_.RunToTheEnd();
    return std::move(outcome_);
  }

 private:
  // Takes out what is not to be run of the first `max_batch_size`.
  void Clear(size_t model) {
    const Nanos now = simulation_.now();
    std::deque<Waiting>& line = lines_[model];
    const size_t most = workload_.models[model].max_batch_size;
    for (size_t i = 0; i < line.size() && i < most;) {
      const bool gone = line[i].cancels <= now;
      if (gone || (options_.timeouts && line[i].deadline <= now)) {
        ++(gone ? outcome_.cancelled : outcome_.expired);
        line.erase(line.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  bool Due(size_t model) const {
    const std::deque<Waiting>& line = lines_[model];
    const SimulatedModel& of = workload_.models[model];
    return !line.empty() && running_[model] < of.instances &&
           (line.size() >= static_cast<size_t>(of.max_batch_size) ||
            simulation_.now() - line.front().arrival >= options_.max_queue_delay);
  }

  void Start() {
    while (free_threads_ > 0) {
      size_t chosen = lines_.size();
      for (size_t model = 0; model < lines_.size(); ++model) {
        if (!Due(model)) continue;
        if (chosen == lines_.size() ||
            lines_[model].front().arrival < lines_[chosen].front().arrival) {
          chosen = model;
        }
      }
      if (chosen == lines_.size()) return;
      Clear(chosen);
      if (Due(chosen)) StartBatch(chosen);
    }
  }

  void StartBatch(size_t model) {
    const SimulatedModel& of = workload_.models[model];
    std::deque<Waiting>& line = lines_[model];
    auto batch = std::make_shared<std::vector<Waiting>>();
    while (!line.empty() && batch->size() < static_cast<size_t>(of.max_batch_size)) {
      outcome_.run_expired += line.front().deadline <= simulation_.now();
      batch->push_back(line.front());
      line.pop_front();
    }
    ++outcome_.batches;
    ++running_[model];
    --free_threads_;
    const auto took =
        static_cast<Nanos>(of.RunTime(static_cast<int>(batch->size())) * noise_(random_));
    outcome_.busy += took * 1e-9;
    simulation_.At(simulation_.now() + took, [this, model, batch] {
      for (const Waiting& one : *batch) {
        outcome_.Answer(one.arrival, one.deadline, simulation_.now());
      }
      --running_[model];
      ++free_threads_;
      Start();
    });
  }

  const Workload& workload_;
  const FixedDelayOptions options_;
  Simulation simulation_;  // for its time alone
  std::mt19937_64 random_{1};
  std::lognormal_distribution<double> noise_{0, kRunTimeNoise};
  int free_threads_;
  std::vector<std::deque<Waiting>> lines_;
  std::vector<int> running_;
  Outcome outcome_;
};

}  // namespace

Outcome RunFixedDelay(const Workload& workload, int device_threads,
                      const FixedDelayOptions& options) {
  return FixedDelay(workload, device_threads, options).Run();
}

}  // namespace fovea::bench
