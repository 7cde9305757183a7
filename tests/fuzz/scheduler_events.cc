// What happens to the scheduler, in virtual time: each event is some bytes. Whatever happens, a
// task that had a place ends exactly once, a batch holds what it may, and the device runs no more
// threads than it has.
#include <map>
#include <memory>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr int kMaxEvents = 120;

class Events {
 public:
  explicit Events(FuzzInput input) : input_(input) {
    simulation_.on_start = [this](QueueId queue, const Batch& batch) {
      const ModelQueueOptions& options = queues_.at(queue);
      FOVEA_CHECK(!batch.tasks.empty());
      FOVEA_CHECK(batch.images >= 1 && batch.images <= options.max_batch_size);
      FOVEA_CHECK(batch.instance >= 0 && batch.instance < options.instances);
      for (const auto& task : batch.tasks) FOVEA_CHECK(task->shape_key() == batch.shape_key);
      FOVEA_CHECK(batch.images <= RoomOf(options, batch.threads));
      busy_threads_ += batch.threads;
      FOVEA_CHECK(busy_threads_ <= device_threads_);
    };
    simulation_.on_done = [this](QueueId, const Batch& batch) { busy_threads_ -= batch.threads; };
  }

  void Run() {
    const int models = input_.TakeInt(1, 3);
    for (int i = 0; i < models; ++i) AddModel();
    for (int i = 0; i < kMaxEvents && !input_.empty(); ++i) Happen();
    for (const auto& [queue, options] : queues_) simulation_.dispatcher().Drain(queue);
    for (const auto& place : places_) simulation_.dispatcher().Release(place.queue, place.id);
    simulation_.Step();
    simulation_.RunToTheEnd();
    for (const auto& [queue, options] : queues_) {
      FOVEA_CHECK(simulation_.dispatcher().running(queue) == 0);
      FOVEA_CHECK(simulation_.dispatcher().waiting(queue) == 0);
      FOVEA_CHECK(simulation_.dispatcher().reserved(queue) == 0);
      simulation_.dispatcher().Stop(queue);
      simulation_.dispatcher().RemoveQueue(queue);
    }
    FOVEA_CHECK(busy_threads_ == 0);
    for (const Sent& task : sent_) FOVEA_CHECK(task.record->ends() == 1);
  }

 private:
  struct Place {
    QueueId queue;
    TaskId id;
    std::shared_ptr<TaskRecord> record;
  };
  using Sent = Place;

  static int RoomOf(const ModelQueueOptions& options, int threads) {
    return AllowedThreads{options.threads_per_batch, options.max_batch_size}.MaxImages(threads);
  }

  void AddModel() {
    ModelQueueOptions options{.max_batch_size = input_.TakeInt(1, 8)};
    if (input_.TakeByte() % 2 == 1) {
      options.preferred_batch_sizes = {input_.TakeInt(1, options.max_batch_size)};
    }
    options.max_queue_delay_us = input_.TakeInt(0, 8'000);
    options.default_deadline_us = input_.TakeInt(1, 50'000);
    options.policies.assign(input_.TakeInt(1, 3), QueuePolicy());
    for (QueuePolicy& policy : options.policies) {
      policy.max_queue_size = input_.TakeInt(1, 32);
      policy.default_timeout_us = input_.TakeInt(0, 10'000);
      if (input_.TakeByte() % 2 == 1) policy.timeout_action = TimeoutAction::kDelay;
    }
    options.rate_limiter_priority = input_.TakeInt(1, 3);
    options.instances = input_.TakeInt(1, 3);
    options.threads_per_batch = {input_.TakeInt(1, device_threads_)};
    if (const int most = options.threads_per_batch[0]; most > 1 && input_.TakeByte() % 2 == 1) {
      options.threads_per_batch = {1, most};
      options.instances = most;
    }
    const Nanos per_image = input_.TakeInt(1, 3'000) * kMicrosecond;
    const QueueId queue = simulation_.AddModel(
        options, [per_image](const Batch& batch) { return per_image * batch.images; });
    queues_[queue] = options;
    ids_.push_back(queue);
  }

  QueueId ChooseQueue() { return ids_[input_.TakeByte() % ids_.size()]; }

  void Happen() {
    switch (input_.TakeByte() % 8) {
      case 0:
      case 1:
        Reserve();
        break;
      case 2:
      case 3:
        Use(/*enqueue=*/true);
        break;
      case 4:
        Use(/*enqueue=*/false);
        break;
      case 5:
        if (!sent_.empty()) {
          const Sent& task = sent_[input_.TakeByte() % sent_.size()];
          simulation_.Cancel(task.queue, task.id, *task.record);
        }
        break;
      case 6:
        simulation_.RunUntil(simulation_.now() + input_.TakeInt(0, 20'000) * kMicrosecond);
        break;
      default:
        Rarely();
    }
  }

  void Reserve() {
    const QueueId queue = ChooseQueue();
    auto record = std::make_shared<TaskRecord>();
    record->images = input_.TakeInt(1, queues_.at(queue).max_batch_size);
    record->shape_key = input_.TakeByte() % 3;
    record->priority = input_.TakeByte() % static_cast<int>(queues_.at(queue).policies.size());
    record->arrival = simulation_.now();
    const int deadline_us = input_.TakeInt(0, 60'000);
    if (deadline_us % 2 == 1) {
      record->deadline = simulation_.now() + (deadline_us - 1'000) * kMicrosecond;
    }
    const auto place = simulation_.dispatcher().Reserve(queue,
                                                        {.images = record->images,
                                                         .shape_key = record->shape_key,
                                                         .priority = record->priority,
                                                         .deadline = record->deadline,
                                                         .ready_at = simulation_.now()},
                                                        simulation_.now());
    simulation_.Step();
    if (place.ok()) places_.push_back({queue, *place, std::move(record)});
  }

  void Use(bool enqueue) {
    if (places_.empty()) return;
    const size_t chosen = input_.TakeByte() % places_.size();
    const Place place = places_[chosen];
    places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(chosen));
    if (enqueue) {
      sent_.push_back(place);
      simulation_.dispatcher().Enqueue(place.queue, place.id,
                                       std::make_unique<FakeTask>(place.record), simulation_.now());
    } else {
      simulation_.dispatcher().Release(place.queue, place.id);
    }
    simulation_.Step();
  }

  void Rarely() {
    const QueueId queue = ChooseQueue();
    switch (input_.TakeByte() % 4) {
      case 0:
        simulation_.dispatcher().Drain(queue);
        break;
      case 1:
        simulation_.dispatcher().Stop(queue);
        break;
      case 2:
        simulation_.dispatcher().RecordLatency(
            queue, {.images = input_.TakeInt(1, queues_.at(queue).max_batch_size)},
            input_.TakeInt(1, 10'000) * kMicrosecond, simulation_.now());
        break;
      default:
        if (!sent_.empty()) sent_[input_.TakeByte() % sent_.size()].record->cancelled = true;
    }
    simulation_.Step();
  }

  static constexpr int device_threads_ = 4;
  FuzzInput input_;
  Simulation simulation_{{.device_threads = device_threads_}};
  std::map<QueueId, ModelQueueOptions> queues_;
  std::vector<QueueId> ids_;
  std::vector<Place> places_;  // that are reserved
  std::vector<Sent> sent_;
  int busy_threads_ = 0;
};

}  // namespace

FOVEA_FUZZ_TARGET(scheduler_events, input) { Events(input).Run(); }

}  // namespace fovea
