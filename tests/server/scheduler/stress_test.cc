// The whole scheduler on real threads and the real clock, as hard as it goes: for the sanitizers.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/core/mutex.h"
#include "server/scheduler/scheduler.h"
#include "tests/server/scheduler/fake_task.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;

// Keeps this thread busy, as a model would.
void Compute(Nanos duration) {
  const Nanos until = SteadyClock().Now() + duration;
  while (SteadyClock().Now() < until) {
  }
}

// What this thread itself has computed: others may have its processor at any time.
Nanos ThreadTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

// A model that can be replaced while it is used, as a reload does.
class Slot {
 public:
  std::shared_ptr<ModelQueue> Get() {
    MutexLock lock(mutex_);
    return queue_;
  }
  void Set(std::shared_ptr<ModelQueue> queue) {
    MutexLock lock(mutex_);
    queue_.swap(queue);
  }

 private:
  Mutex mutex_;
  std::shared_ptr<ModelQueue> queue_ ABSL_GUARDED_BY(mutex_);
};

TEST(SchedulerStressTest, EveryTaskEndsOnceWhileEverythingHappensAtOnce) {
  constexpr int kClients = 6;
  constexpr int kModels = 3;
  const Nanos end = SteadyClock().Now() + 2 * kSecond;
  auto scheduler = *Scheduler::Create({.device_threads = 2}, SteadyClock());
  std::atomic<int> running{0};
  std::atomic<int> too_many{0};
  auto add = [&](int model, uint64_t seed) -> std::shared_ptr<ModelQueue> {
    ModelQueueOptions options{.max_batch_size = 1 + model * 3,
                              .max_queue_delay_us = model * 200,
                              .policies = {{.max_queue_size = 8},
                                           {.timeout_action = TimeoutAction::kDelay,
                                            .default_timeout_us = 500,
                                            .max_queue_size = 8}},
                              .instances = 1 + static_cast<int>(seed % 2),
                              .threads_per_batch = {1}};
    return *scheduler->AddModel(options, [&](std::unique_ptr<Batch> batch) {
      if (++running > 2) ++too_many;
      Compute(batch->images * 20 * kMicrosecond);
      for (auto& task : batch->tasks) RecordOf(*task).Run();
      --running;
      return RunOutcome::kWhole;
    });
  };
  std::vector<Slot> slots(kModels);
  for (int model = 0; model < kModels; ++model) slots[model].Set(add(model, model));

  std::vector<std::vector<std::shared_ptr<TaskRecord>>> records(kClients);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int client = 0; client < kClients; ++client) {
    threads.emplace_back([&, client] {
      std::mt19937_64 random(client);
      std::vector<std::pair<Ticket, std::shared_ptr<TaskRecord>>> open;
      while (SteadyClock().Now() < end) {
        const int model = random() % kModels;
        std::shared_ptr<ModelQueue> queue = slots[model].Get();
        auto record = std::make_shared<TaskRecord>();
        record->arrival = SteadyClock().Now();
        record->images = 1 + random() % (1 + model);
        record->priority = random() % 2;
        if (random() % 2 == 0) record->deadline = record->arrival + random() % (3 * kMs);
        absl::StatusOr<Reservation> place = queue->Reserve(
            {.images = record->images, .priority = record->priority, .deadline = record->deadline});
        if (!place.ok()) {
          ++refused;
          std::this_thread::yield();
          continue;
        }
        if (random() % 20 == 0) continue;  // the image was bad
        open.emplace_back(place->ticket(), record);
        records[client].push_back(record);
        ModelQueue::Enqueue(*std::move(place), std::make_unique<FakeTask>(record));
        if (random() % 4 == 0) {
          const auto& [ticket, victim] = open[random() % open.size()];
          victim->cancelled = true;
          ticket.NotifyCancelled();
        }
        if (open.size() > 8) {
          open.front().second->AwaitEnd();
          open.erase(open.begin());
        }
      }
    });
  }
  threads.emplace_back([&] {  // reloads
    std::mt19937_64 random(99);
    while (SteadyClock().Now() < end) {
      const int model = random() % kModels;
      slots[model].Set(add(model, random()));
      Compute(5 * kMs);
    }
  });
  for (std::thread& thread : threads) thread.join();
  for (Slot& slot : slots) slot.Set(nullptr);
  scheduler.reset();

  int runs = 0;
  int drops = 0;
  for (const auto& of_client : records) {
    for (const auto& record : of_client) {
      ASSERT_EQ(record->ends(), 1);
      runs += record->runs;
      drops += record->drops;
      if (record->drops == 1) {
        const std::string reason = ReasonOf(record->why);
        EXPECT_TRUE(reason == "queue.cancelled"  ? record->cancelled.load()
                    : reason == "queue.draining" ? true
                                                 : record->deadline != kNever)
            << reason;
      }
    }
  }
  EXPECT_EQ(too_many, 0);
  EXPECT_GT(runs, 100);
  EXPECT_GT(drops, 10);
  RecordProperty("runs", runs);
  RecordProperty("drops", drops);
  RecordProperty("refused", refused);
}

// docs/faults.md, promise 3: a full queue refuses in under 1 ms at p99.
TEST(SchedulerStressTest, RefusesWithAFullQueueInUnderAMillisecond) {
  auto scheduler = *Scheduler::Create({}, SteadyClock());
  std::atomic<bool> open{false};
  auto queue = *scheduler->AddModel({.max_batch_size = 1, .policies = {{.max_queue_size = 64}}},
                                    [&](std::unique_ptr<Batch> batch) {
                                      open.wait(false);
                                      for (auto& task : batch->tasks) RecordOf(*task).Run();
                                      return RunOutcome::kWhole;
                                    });
  std::vector<Reservation> places;
  for (;;) {
    absl::StatusOr<Reservation> place = queue->Reserve({});
    if (!place.ok()) break;
    places.push_back(*std::move(place));
  }
  ASSERT_EQ(places.size(), 64u);
  std::vector<Nanos> took, computed;
  for (int i = 0; i < 20'000; ++i) {
    const Nanos start = SteadyClock().Now(), before = ThreadTime();
    const bool refused = !queue->Reserve({.deadline = start + kSecond}).ok();
    computed.push_back(ThreadTime() - before);
    took.push_back(SteadyClock().Now() - start);
    ASSERT_TRUE(refused);
  }
  const auto at = [](std::vector<Nanos>& times, size_t percent) {
    const auto place = times.begin() + static_cast<ptrdiff_t>(times.size() * percent / 100);
    std::nth_element(times.begin(), place, times.end());
    return *place;
  };
  EXPECT_LT(at(computed, 99), 1 * kMs);
  EXPECT_LT(at(took, 90), 1 * kMs) << "it waits for something";
  places.clear();
  open = true;
  open.notify_all();
}

}  // namespace
}  // namespace fovea
