// What is set of the scheduler, and of each model's queue.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/queue_policy.h"
#include "server/core/clock.h"

namespace fovea {

class SchedulerObserver;

struct SchedulerOptions {
  // What the models share: the cores that batches may keep busy together. 1 for a device that runs
  // a batch at a time.
  int device_threads = 1;
  // Device time (of one thread) that a model gains each time its turn comes. Lower: finer turns
  // between models whose batches are short; a batch is never cut, so below the cost of one batch it
  // makes no difference.
  int64_t fair_share_quantum_us = 100;
};

// Where work without a deadline stands in a line.
inline constexpr int64_t kDefaultDeadlineUs = 10'000'000;

struct ModelQueueOptions {
  std::string name;
  // Images in a batch at most. Higher: more throughput where batching pays, longer batches for
  // everybody. Batches grow so far where it pays, and where they are filled (BatchDemand::fill).
  int max_batch_size = 1;
  // Sizes that run especially well: as soon as one can be formed the largest of them is sent, a
  // queue delay or not, in several batches where several threads_per_batch are allowed. Counted in
  // images; where requests carry several, a batch may stay just below. Empty: none is preferred.
  std::vector<int> preferred_batch_sizes;
  // How long an idle device is left waiting for batch peers of a task in line. Higher: fuller
  // batches under light load, and that much more latency. 0: never.
  int64_t max_queue_delay_us = 0;
  // How the tasks of each priority wait, the highest (0) first; never empty. Each has places of its
  // own: a line that is full refuses nobody of another priority.
  std::vector<QueuePolicy> policies = {QueuePolicy()};
  // Ordering only: a task without a deadline is in line as if it had arrival + this. Lower: such
  // tasks are served before tasks with far deadlines.
  int64_t default_deadline_us = kDefaultDeadlineUs;
  // Threads that run batches of this model, each one at a time.
  int instances = 1;
  // What a running batch may take of SchedulerOptions::device_threads, ascending. Several, up to
  // all of them: it is chosen for each batch (batch_threads.h), and there are at least as many
  // instances as batches on the fewest threads fit side by side.
  std::vector<int> threads_per_batch = {1};
  // Triton's weight between models, 1 the highest: while both always have work, a model of 2 gets
  // half the device time of a model of 1.
  int rate_limiter_priority = 1;
  // How long the destructor of the queue lets accepted work finish before it gives the rest back.
  int64_t drain_timeout_us = 30'000'000;
  // Runs first on each instance's thread, with the instance's number: sets what is per thread.
  std::function<void(int instance)> on_thread_start;
  // Runs on an instance's thread once it has had no batch for `idle_after_us`, and again after its
  // next batch: frees what it needs only to run. Lower: freed sooner, and made anew more often.
  std::function<void(int instance)> on_thread_idle;
  int64_t idle_after_us = 1'000'000;
  // May be null; outlives the queue.
  SchedulerObserver* observer = nullptr;
};

// INVALID_ARGUMENT with reason "scheduler.bad_options", naming the field.
absl::Status Validate(const SchedulerOptions& options);
absl::Status Validate(const ModelQueueOptions& options, const SchedulerOptions& scheduler);

}  // namespace fovea
