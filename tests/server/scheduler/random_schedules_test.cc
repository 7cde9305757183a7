// Thousands of random schedules in virtual time: arrivals, decoding, cancellations, expiry, drains,
// several models and instances. Whatever happens, every task that had a place ends exactly once,
// and every batch keeps the rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;
constexpr int kSchedules = 4'000;
constexpr int kPriorities = 3;

// What the test itself knows of a task in line, so that it need not believe the queue.
struct InLine {
  TaskId id;
  std::shared_ptr<TaskRecord> record;
  Nanos since;
};

struct Model {
  ModelQueueOptions options;
  std::map<const TaskRecord*, InLine> line;
  std::set<int> busy_instances;
  bool stopped = false;

  Nanos OrderOf(const TaskRecord& record) const {
    return record.deadline == kNever ? record.arrival + options.default_deadline_us * kMicrosecond
                                     : record.deadline;
  }
  std::tuple<int, Nanos, TaskId> Key(const InLine& task) const {
    return {task.record->priority, OrderOf(*task.record), task.id};
  }
  // A timed-out task that is delayed loses its place in the order, which only the queue knows.
  bool OrderIsKnown() const {
    return std::ranges::none_of(options.policies, [](const QueuePolicy& policy) {
      return policy.timeout_action == TimeoutAction::kDelay;
    });
  }
};

class Schedule {
 public:
  explicit Schedule(uint64_t seed)
      : random_(seed), scheduler_{.device_threads = Between(1, 4)}, simulation_(scheduler_) {
    simulation_.on_start = [this](QueueId queue, const Batch& batch) { CheckStart(queue, batch); };
    simulation_.on_done = [this](QueueId queue, const Batch& batch) {
      busy_threads_ -= batch.threads;
      EXPECT_EQ(models_.at(queue).busy_instances.erase(batch.instance), 1u);
    };
    simulation_.on_drop = [this](const Dispatcher::Dropped& dropped) { CheckDrop(dropped); };
    simulation_.on_settled = [this] { CheckIdleDeviceIsNotHeld(); };
    const int models = Between(1, 3);
    for (int i = 0; i < models; ++i) AddModel();
  }

  void Run() {
    const Nanos start = simulation_.now();
    const Nanos length = Between(5, 100) * kMs;
    const int arrivals = Between(1, 120);
    for (int i = 0; i < arrivals; ++i) {
      simulation_.At(start + Between64(0, length), [this] { Arrive(); });
    }
    for (auto& [queue, model] : models_) {
      const Nanos drain = start + Between64(0, 2 * length);
      simulation_.At(drain, [this, queue = queue] {
        simulation_.dispatcher().Drain(queue);
        simulation_.Step();
      });
      if (Chance(0.5))
        simulation_.At(drain + Between64(0, 20 * kMs), [this, queue = queue] { Stop(queue); });
    }
    simulation_.RunToTheEnd();
    for (auto& [queue, model] : models_) {
      EXPECT_EQ(simulation_.dispatcher().running(queue), 0);
      EXPECT_EQ(simulation_.dispatcher().waiting(queue), 0);
      EXPECT_EQ(simulation_.dispatcher().reserved(queue), 0);
      EXPECT_TRUE(model.line.empty());
      Stop(queue);
      simulation_.dispatcher().RemoveQueue(queue);
    }
    EXPECT_EQ(busy_threads_, 0);
    for (const auto& record : accepted_) EXPECT_EQ(record->ends(), 1);
    for (const auto& record : refused_) EXPECT_EQ(record->ends(), 0);
  }

  int runs() const {
    return Count([](const TaskRecord& record) { return record.runs.load(); });
  }
  int drops() const {
    return Count([](const TaskRecord& record) { return record.drops.load(); });
  }
  const std::map<std::string, int>& drop_reasons() const { return drop_reasons_; }
  const std::set<CloseReason>& close_reasons() const { return close_reasons_; }

 private:
  int Between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  Nanos Between64(Nanos low, Nanos high) {
    return std::uniform_int_distribution<Nanos>(low, high)(random_);
  }
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

  template <typename F>
  int Count(F of) const {
    int count = 0;
    for (const auto& record : accepted_) count += of(*record);
    return count;
  }

  void AddModel() {
    ModelQueueOptions options{.max_batch_size = Between(1, 8)};
    for (int i = Chance(0.3) ? Between(1, 3) : 0; i > 0; --i) {
      options.preferred_batch_sizes.push_back(Between(1, options.max_batch_size));
    }
    if (Chance(0.5)) options.max_queue_delay_us = Between(1, 8'000);
    options.policies.resize(kPriorities);
    const bool delays = Chance(0.5);
    for (QueuePolicy& policy : options.policies) {
      policy.max_queue_size = Chance(0.3) ? Between(1, 8) : 64;
      if (Chance(0.3)) policy.default_timeout_us = Between(1, 10'000);
      if (delays && Chance(0.7)) policy.timeout_action = TimeoutAction::kDelay;
      policy.allow_timeout_override = Chance(0.5);
    }
    options.default_deadline_us = Between(1, 50'000);
    options.instances = Between(1, 3);
    options.rate_limiter_priority = Between(1, 3);
    options.threads_per_batch.clear();
    for (int threads = 1; threads <= scheduler_.device_threads; ++threads) {
      if (Chance(0.5)) options.threads_per_batch.push_back(threads);
    }
    if (options.threads_per_batch.empty()) {
      options.threads_per_batch = {Between(1, scheduler_.device_threads)};
    }
    if (options.threads_per_batch.size() > 1) {
      options.threads_per_batch.back() = scheduler_.device_threads;
      options.instances = scheduler_.device_threads;
    }
    EXPECT_TRUE(Validate(options, scheduler_).ok());
    const Nanos per_batch = Between64(0, 3 * kMs);
    const Nanos per_image = Between64(1, kMs);
    const QueueId queue = simulation_.AddModel(options, [=, this](const Batch& batch) {
      return (per_batch + per_image * batch.images) / batch.threads * Between(80, 120) / 100;
    });
    if (Chance(0.5)) {
      for (int images = 1; images <= options.max_batch_size; ++images) {
        for (const int threads : options.threads_per_batch) {
          simulation_.dispatcher().RecordLatency(queue, {.images = images, .threads = threads},
                                                 (per_batch + per_image * images) / threads,
                                                 simulation_.now());
        }
      }
    }
    models_[queue].options = options;
  }

  void Arrive() {
    auto chosen = std::next(models_.begin(), Between(0, static_cast<int>(models_.size()) - 1));
    const QueueId queue = chosen->first;
    Model& model = chosen->second;
    if (model.stopped) return;
    auto record = std::make_shared<TaskRecord>();
    record->images = Chance(0.6) ? 1 : Between(1, model.options.max_batch_size);
    record->shape_key = Chance(0.7) ? 0 : Between(0, 2);
    record->priority = Chance(0.7) ? 0 : Between(0, kPriorities - 1);
    record->arrival = simulation_.now();
    if (Chance(0.5)) record->deadline = simulation_.now() + Between64(-kMs / 10, 40 * kMs);
    if (Chance(0.2)) record->timeout = Between64(1, 20 * kMs);
    record->cancelled = Chance(0.03);
    absl::StatusOr<TaskId> place = simulation_.dispatcher().Reserve(
        queue,
        {.images = record->images, .priority = record->priority, .deadline = record->deadline},
        simulation_.now());
    if (!place.ok()) {
      refused_.push_back(record);
      return;
    }
    const Nanos decoded = simulation_.now() + (Chance(0.5) ? 0 : Between64(0, 5 * kMs));
    if (Chance(0.05)) {  // the image was bad
      simulation_.At(decoded,
                     [this, queue, id = *place] { simulation_.dispatcher().Release(queue, id); });
      refused_.push_back(record);
      return;
    }
    accepted_.push_back(record);
    simulation_.At(decoded, [this, queue, id = *place, record] { Enqueue(queue, id, record); });
    if (Chance(0.15)) {
      simulation_.At(decoded + Between64(0, 10 * kMs), [this, queue, id = *place, record] {
        if (Chance(0.5)) {
          simulation_.Cancel(queue, id, *record);
          if (record->ends() == 0) {  // not in line any more: it runs
            EXPECT_EQ(models_.at(queue).line.count(record.get()), 0u);
          }
        } else {
          record->cancelled = true;
        }
      });
    }
  }

  void Enqueue(QueueId queue, TaskId id, const std::shared_ptr<TaskRecord>& record) {
    models_.at(queue).line[record.get()] = {id, record, simulation_.now()};
    simulation_.dispatcher().Enqueue(queue, id, std::make_unique<FakeTask>(record),
                                     simulation_.now());
    simulation_.Step();
  }

  void Stop(QueueId queue) {
    models_.at(queue).stopped = true;
    simulation_.dispatcher().Stop(queue);
    simulation_.Step();
    EXPECT_TRUE(models_.at(queue).line.empty());
  }

  void CheckStart(QueueId queue, const Batch& batch) {
    Model& model = models_.at(queue);
    close_reasons_.insert(batch.why);
    EXPECT_EQ(batch.state(), BatchState::kRunning);
    EXPECT_EQ(batch.closed_at, simulation_.now());
    EXPECT_FALSE(model.stopped);
    EXPECT_GE(batch.instance, 0);
    EXPECT_LT(batch.instance, model.options.instances);
    EXPECT_EQ(std::ranges::count_if(model.busy_instances,
                                    [&](int busy) { return busy < batch.instance; }),
              batch.instance)
        << "not the first that is idle";
    EXPECT_TRUE(model.busy_instances.insert(batch.instance).second);
    busy_threads_ += batch.threads;
    EXPECT_LE(busy_threads_, scheduler_.device_threads);
    const AllowedThreads choice{model.options.threads_per_batch, model.options.max_batch_size};
    EXPECT_TRUE(std::ranges::count(choice.threads, batch.threads));
    EXPECT_LE(batch.images, choice.MaxImages(batch.threads));
    EXPECT_LE(batch.images, choice.MaxImagesOfInstance(batch.instance));

    ASSERT_FALSE(batch.tasks.empty());
    int images = 0;
    for (const auto& task : batch.tasks) {
      EXPECT_FALSE(task->Cancelled());
      EXPECT_GT(task->deadline(), simulation_.now());
      EXPECT_EQ(task->shape_key(), batch.shape_key);
      images += task->images();
    }
    EXPECT_EQ(images, batch.images);
    EXPECT_LE(images, model.options.max_batch_size);
    if (model.OrderIsKnown()) CheckOrder(model, batch);
    for (const auto& task : batch.tasks) {
      EXPECT_EQ(model.line.erase(&RecordOf(*task)), 1u);
    }
  }

  // The tasks are in the order of the line, and whoever was before one of them and was left out had
  // another shape or did not fit.
  void CheckOrder(const Model& model, const Batch& batch) {
    std::vector<std::tuple<int, Nanos, TaskId>> taken;
    for (const auto& task : batch.tasks)
      taken.push_back(model.Key(model.line.at(&RecordOf(*task))));
    EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end()));
    for (const auto& [record, task] : model.line) {
      if (record->cancelled) continue;
      const auto key = model.Key(task);
      if (std::find(taken.begin(), taken.end(), key) != taken.end()) continue;
      EXPECT_LT(taken.front(), key) << "the first in line was passed over";
      if (record->shape_key != batch.shape_key || key > taken.back()) continue;
      int before = 0;
      for (size_t i = 0; i < taken.size(); ++i) {
        if (taken[i] < key) before += batch.tasks[i]->images();
      }
      EXPECT_GT(before + record->images, batch.images) << "there was room for it";
    }
  }

  void CheckDrop(const Dispatcher::Dropped& dropped) {
    Model& model = models_.at(dropped.queue);
    const TaskRecord& record = RecordOf(*dropped.task);
    const Nanos now = simulation_.now();
    const InLine& task = model.line.at(&record);
    const std::string reason = ReasonOf(dropped.why);
    ++drop_reasons_[reason];
    const QueuePolicy& policy = model.options.policies[record.priority];
    Nanos timeout =
        policy.default_timeout_us == 0 ? kNever : policy.default_timeout_us * kMicrosecond;
    if (policy.allow_timeout_override) timeout = std::min(timeout, record.timeout);
    if (reason == "queue.cancelled") {
      EXPECT_TRUE(record.cancelled);
    } else if (reason == "queue.expired") {
      EXPECT_EQ(now, std::max(record.deadline, task.since)) << "left at its deadline, not later";
    } else if (reason == "queue.timeout") {
      EXPECT_EQ(policy.timeout_action, TimeoutAction::kReject);
      ASSERT_NE(timeout, kNever);
      EXPECT_EQ(now, std::max(record.arrival + timeout, task.since));
    } else if (reason == "queue.unreachable_deadline") {
      EXPECT_GT(record.deadline, now);
      EXPECT_NE(record.deadline, kNever);
    } else {
      EXPECT_EQ(reason, "queue.draining");
      EXPECT_TRUE(model.stopped);
    }
    model.line.erase(&record);
  }

  void CheckIdleDeviceIsNotHeld() {
    if (busy_threads_ > 0) return;
    for (const auto& [queue, model] : models_) {
      for (const auto& [record, task] : model.line) {
        if (record->cancelled) continue;
        EXPECT_LT(simulation_.now() - task.since, model.options.max_queue_delay_us * kMicrosecond);
      }
    }
  }

  std::mt19937_64 random_;
  const SchedulerOptions scheduler_;
  Simulation simulation_;
  std::map<QueueId, Model> models_;
  int busy_threads_ = 0;
  std::vector<std::shared_ptr<TaskRecord>> accepted_;
  std::vector<std::shared_ptr<TaskRecord>> refused_;
  std::map<std::string, int> drop_reasons_;
  std::set<CloseReason> close_reasons_;
};

TEST(RandomSchedulesTest, EveryTaskEndsExactlyOnceAndEveryBatchKeepsTheRules) {
  int runs = 0;
  int drops = 0;
  std::map<std::string, int> reasons;
  std::set<CloseReason> closes;
  for (uint64_t seed = 1; seed <= kSchedules; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Schedule schedule(seed);
    schedule.Run();
    runs += schedule.runs();
    drops += schedule.drops();
    for (const auto& [reason, count] : schedule.drop_reasons()) reasons[reason] += count;
    closes.insert(schedule.close_reasons().begin(), schedule.close_reasons().end());
    if (HasFailure()) break;  // one seed tells enough
  }
  // The schedules reach every way in which a task ends and a batch closes.
  EXPECT_GT(runs, kSchedules * 10);
  EXPECT_GT(drops, kSchedules);
  for (const char* reason : {"queue.cancelled", "queue.expired", "queue.timeout",
                             "queue.unreachable_deadline", "queue.draining"}) {
    EXPECT_GT(reasons[reason], 100) << reason;
  }
  EXPECT_EQ(closes.size(), 6u);
  RecordProperty("runs", runs);
  RecordProperty("drops", drops);
}

}  // namespace
}  // namespace fovea
