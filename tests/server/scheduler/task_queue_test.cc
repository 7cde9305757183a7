#include "server/scheduler/task_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/server/scheduler/fake_task.h"

namespace fovea {
namespace {

using testing::ElementsAre;

struct Spec {
  int number;
  int images = 1;
  uint64_t shape_key = 0;
  int priority = 0;
  Nanos arrival = 0;
  Nanos timeout = kNever;
  Nanos deadline = kNever;
};

class TaskQueueTest : public testing::Test {
 protected:
  void Add(const Spec& spec) { Add(queue_, spec); }
  static void Add(TaskQueue& queue, const Spec& spec) {
    auto record = std::make_shared<TaskRecord>();
    record->number = spec.number;
    record->images = spec.images;
    record->shape_key = spec.shape_key;
    record->priority = spec.priority;
    record->arrival = spec.arrival;
    record->timeout = spec.timeout;
    record->deadline = spec.deadline;
    queue.Add(spec.number, std::make_unique<FakeTask>(std::move(record)), spec.arrival);
  }

  static std::vector<int> Numbers(const std::vector<std::unique_ptr<Task>>& tasks) {
    std::vector<int> numbers;
    for (const auto& task : tasks) numbers.push_back(RecordOf(*task).number);
    return numbers;
  }
  std::vector<int> Take(int room) {
    std::vector<std::unique_ptr<Task>> refused;
    return Numbers(queue_
                       .Take(
                           room, [](const WaitingTask&) { return true; }, &refused)
                       .tasks);
  }
  static std::vector<std::pair<int, TaskQueue::Expiry>> Expired(TaskQueue& queue, Nanos now) {
    std::vector<std::pair<int, TaskQueue::Expiry>> expired;
    queue.TakeExpired(now, [&](std::unique_ptr<Task> task, TaskQueue::Expiry expiry) {
      expired.emplace_back(RecordOf(*task).number, expiry);
    });
    return expired;
  }

  ModelQueueOptions options_{.policies = {{}, {}}, .default_deadline_us = 1'000};
  TaskQueue queue_{options_};
};

TEST_F(TaskQueueTest, ServesTheEarliestDeadlineFirst) {
  Add({.number = 1, .deadline = 300'000});
  Add({.number = 2, .deadline = 100'000});
  Add({.number = 3, .deadline = 200'000});
  EXPECT_THAT(Take(8), ElementsAre(2, 3, 1));
}

TEST_F(TaskQueueTest, ServesAPriorityBeforeTheNextWhateverTheDeadlines) {
  Add({.number = 1, .priority = 1, .deadline = 100});
  Add({.number = 2, .priority = 0, .deadline = 900'000});
  Add({.number = 3, .priority = 0});
  EXPECT_THAT(Take(8), ElementsAre(2, 3, 1));
}

TEST_F(TaskQueueTest, OrdersATaskWithoutADeadlineByItsArrival) {
  Add({.number = 1, .arrival = 0});  // in line as if its deadline was at 1 ms
  Add({.number = 2, .arrival = 0, .deadline = 999'999});
  Add({.number = 3, .arrival = 0, .deadline = 1'000'001});
  EXPECT_THAT(Take(8), ElementsAre(2, 1, 3));
}

TEST_F(TaskQueueTest, GivesATaskWithoutADeadlineNoneToExpireBy) {
  Add({.number = 1, .arrival = 0});
  EXPECT_EQ(queue_.NextExpiry(), kNever);
  EXPECT_TRUE(Expired(queue_, kSecond * 1'000).empty());
}

TEST_F(TaskQueueTest, KeepsTheOrderOfReservationAmongEquals) {
  for (int number = 1; number <= 5; ++number) Add({.number = number, .deadline = 500});
  EXPECT_THAT(Take(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(Take(3), ElementsAre(4, 5));
}

TEST_F(TaskQueueTest, NeverMixesShapes) {
  Add({.number = 1, .shape_key = 7, .deadline = 100});
  Add({.number = 2, .shape_key = 9, .deadline = 200});
  Add({.number = 3, .shape_key = 7, .deadline = 300});
  EXPECT_THAT(Take(8), ElementsAre(1, 3));
  EXPECT_THAT(Take(8), ElementsAre(2));
}

TEST_F(TaskQueueTest, LetsSmallerTasksPassOneThatDoesNotFit) {
  Add({.number = 1, .images = 5, .deadline = 100});
  Add({.number = 2, .images = 6, .deadline = 200});
  Add({.number = 3, .images = 2, .deadline = 300});
  Add({.number = 4, .images = 2, .deadline = 400});
  Add({.number = 5, .images = 1, .deadline = 500});
  EXPECT_THAT(Take(8), ElementsAre(1, 3, 5));
}

TEST_F(TaskQueueTest, DoesNotPassOverTheSameTaskForEver) {
  Add({.number = 1, .images = 1, .deadline = 100});
  Add({.number = 2, .images = 8, .deadline = 150});
  for (int number = 3; number < 20; ++number) {
    Add({.number = number, .images = 1, .deadline = number * 100});
  }
  EXPECT_THAT(Take(8), ElementsAre(1, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(Take(8), ElementsAre(2));
}

TEST_F(TaskQueueTest, RunsTheFirstInLineEvenIfItIsLargerThanTheRoom) {
  Add({.number = 1, .images = 5, .deadline = 100});
  Add({.number = 2, .images = 1, .deadline = 200});
  EXPECT_THAT(Take(2), ElementsAre(1));
}

TEST_F(TaskQueueTest, LooksAtABoundedNumberOfTasksThatDoNotFit) {
  Add({.number = 1, .images = 7, .deadline = 1});
  const int too_far = TaskQueue::kMaxPassedOver + 10;
  for (int number = 2; number < too_far; ++number) {
    Add({.number = number, .images = 2, .deadline = number});
  }
  Add({.number = too_far, .images = 1, .deadline = too_far});
  EXPECT_THAT(Take(8), ElementsAre(1));
}

TEST_F(TaskQueueTest, TakesOutWhatIsRefusedAndFillsItsPlace) {
  for (int number = 1; number <= 4; ++number) Add({.number = number, .deadline = number * 100});
  std::vector<std::unique_ptr<Task>> refused;
  auto taken = queue_.Take(
      2, [](const WaitingTask& task) { return task.id != 2 && task.id != 3; }, &refused);
  EXPECT_THAT(Numbers(taken.tasks), ElementsAre(1, 4));
  EXPECT_EQ(taken.images, 2);
  EXPECT_THAT(Numbers(refused), ElementsAre(2, 3));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(TaskQueueTest, TakesNothingWhereTheFirstIsRefused) {
  Add({.number = 1, .deadline = 100});
  Add({.number = 2, .shape_key = 1, .deadline = 200});  // the first now: it gives the shape
  Add({.number = 3, .deadline = 300});
  std::vector<std::unique_ptr<Task>> refused;
  auto taken = queue_.Take(
      2, [](const WaitingTask& task) { return task.id != 1; }, &refused);
  EXPECT_TRUE(taken.tasks.empty());
  EXPECT_THAT(Numbers(refused), ElementsAre(1));
  EXPECT_EQ(queue_.front().id, 2u);
}

TEST_F(TaskQueueTest, LooksAtTheBatchThatItWouldGive) {
  Add({.number = 1, .images = 2, .arrival = 100, .deadline = 5'000});
  Add({.number = 2, .images = 2, .arrival = 40, .deadline = 6'000});
  Add({.number = 3, .images = 2, .priority = 1, .arrival = 10, .deadline = 700});
  Add({.number = 4, .images = 9, .shape_key = 1, .priority = 1, .arrival = 0, .deadline = 300});
  TaskQueue::Forming forming = queue_.Look(8);
  EXPECT_EQ(forming.images, 6);
  EXPECT_EQ(forming.first_images, 4);
  EXPECT_EQ(forming.first_deadline, 5'000);
  EXPECT_EQ(forming.behind_deadline, 700);
  forming = queue_.Look(4);  // the third is not in it
  EXPECT_EQ(forming.images, 6);
  EXPECT_EQ(forming.first_deadline, 5'000);
  EXPECT_EQ(forming.behind_deadline, kNever);
}

TEST_F(TaskQueueTest, KnowsSinceWhenSomebodyHasBeenInLine) {
  Add({.number = 1, .arrival = 10, .deadline = 900});
  Add({.number = 2, .shape_key = 1, .arrival = 20, .deadline = 100});
  Add({.number = 3, .arrival = 30, .deadline = 500});
  EXPECT_EQ(queue_.oldest(), 10);
  (void)queue_.Remove(1);
  EXPECT_EQ(queue_.oldest(), 20);
  EXPECT_THAT(Take(8), ElementsAre(2));
  EXPECT_EQ(queue_.oldest(), 30);
}

TEST_F(TaskQueueTest, TakesOutWhatHasExpiredWhereverItIsInLine) {
  Add({.number = 1, .deadline = 100});
  Add({.number = 2, .deadline = 300});
  Add({.number = 3, .priority = 1, .deadline = 50});
  EXPECT_EQ(queue_.NextExpiry(), 50);
  EXPECT_TRUE(Expired(queue_, 49).empty());
  EXPECT_THAT(Expired(queue_, 100), ElementsAre(std::pair(3, TaskQueue::Expiry::kDeadline),
                                                std::pair(1, TaskQueue::Expiry::kDeadline)));
  EXPECT_EQ(queue_.NextExpiry(), 300);
  EXPECT_EQ(queue_.size(), 1);
}

TEST_F(TaskQueueTest, TakesOutWhatHasTimedOutWhereThatIsTheAction) {
  TaskQueue queue(
      {.policies = {{.timeout_action = TimeoutAction::kReject, .default_timeout_us = 1}}});
  Add(queue, {.number = 1, .arrival = 0});
  Add(queue, {.number = 2, .arrival = 0, .deadline = 500});
  EXPECT_THAT(Expired(queue, 500), ElementsAre(std::pair(2, TaskQueue::Expiry::kDeadline)));
  EXPECT_THAT(Expired(queue, 1'000), ElementsAre(std::pair(1, TaskQueue::Expiry::kTimeout)));
}

TEST_F(TaskQueueTest, SendsWhatHasTimedOutBehindItsPriorityWhereThatIsTheAction) {
  const QueuePolicy policy{.timeout_action = TimeoutAction::kDelay, .default_timeout_us = 1};
  TaskQueue queue({.policies = {policy, policy}});
  Add(queue, {.number = 1, .arrival = 0, .deadline = 5'000});
  Add(queue, {.number = 2, .arrival = 900, .deadline = 9'000});
  Add(queue, {.number = 3, .priority = 1, .arrival = 900, .deadline = 800'000});
  EXPECT_TRUE(Expired(queue, 1'500).empty());
  std::vector<std::unique_ptr<Task>> refused;
  auto taken = queue.Take(
      1, [](const WaitingTask&) { return true; }, &refused);
  EXPECT_THAT(Numbers(taken.tasks), ElementsAre(2));
  EXPECT_EQ(queue.front().id, 1u);  // still before the next priority
  // Its deadline holds all the same.
  EXPECT_THAT(Expired(queue, 5'000), ElementsAre(std::pair(1, TaskQueue::Expiry::kDeadline)));
}

TEST_F(TaskQueueTest, ATaskBehindItsPriorityDoesNotCountAsOneOfTheFirsts) {
  const QueuePolicy policy{.timeout_action = TimeoutAction::kDelay, .default_timeout_us = 1};
  TaskQueue queue({.policies = {policy}});
  Add(queue, {.number = 1, .images = 2, .arrival = 0, .deadline = 5'000});
  Add(queue, {.number = 2, .images = 3, .arrival = 900, .deadline = 9'000});
  EXPECT_TRUE(Expired(queue, 1'500).empty());
  const TaskQueue::Forming forming = queue.Look(8);
  EXPECT_EQ(forming.images, 5);
  EXPECT_EQ(forming.first_images, 3);
  EXPECT_EQ(forming.first_deadline, 9'000);
  EXPECT_EQ(forming.behind_deadline, 5'000);
}

TEST_F(TaskQueueTest, TellsHowManyItHasDelayed) {
  const QueuePolicy policy{.timeout_action = TimeoutAction::kDelay, .default_timeout_us = 1};
  TaskQueue queue({.policies = {policy}});
  for (int number : {1, 2, 3}) Add(queue, {.number = number, .arrival = number * 100});
  const auto none = [](std::unique_ptr<Task>, TaskQueue::Expiry) { FAIL(); };
  EXPECT_EQ(queue.TakeExpired(1'200, none), 2);
  EXPECT_EQ(queue.TakeExpired(1'200, none), 0);
  EXPECT_EQ(queue.front().id, 3u);
  EXPECT_EQ(queue.TakeExpired(1'300, none), 1);
  EXPECT_EQ(queue.front().id, 1u) << "the earliest again";
  EXPECT_EQ(queue.NextExpiry(), kNever);
}

TEST_F(TaskQueueTest, ATasksOwnTimeoutMayBeShorterThanThePolicysWhereThatAllowsIt) {
  TaskQueue queue({.policies = {{.default_timeout_us = 2},
                                {.default_timeout_us = 2, .allow_timeout_override = false},
                                {}}});
  Add(queue, {.number = 1, .priority = 0, .timeout = 1'000});
  Add(queue, {.number = 2, .priority = 0, .timeout = 9'000});
  Add(queue, {.number = 3, .priority = 1, .timeout = 1'000});
  Add(queue, {.number = 4, .priority = 2, .timeout = 3'000});
  Add(queue, {.number = 5, .priority = 2});
  using enum TaskQueue::Expiry;
  EXPECT_THAT(Expired(queue, 1'000), ElementsAre(std::pair(1, kTimeout)));
  EXPECT_THAT(Expired(queue, 2'000), ElementsAre(std::pair(2, kTimeout), std::pair(3, kTimeout)));
  EXPECT_THAT(Expired(queue, 3'000), ElementsAre(std::pair(4, kTimeout)));
  EXPECT_EQ(queue.NextExpiry(), kNever);
}

TEST_F(TaskQueueTest, EachPriorityIsTimedOutByItsOwnPolicy) {
  TaskQueue queue({.policies = {{.timeout_action = TimeoutAction::kDelay, .default_timeout_us = 1},
                                {.default_timeout_us = 1},
                                {.default_timeout_us = 2}}});
  for (int priority : {0, 1, 2}) Add(queue, {.number = priority, .priority = priority});
  using enum TaskQueue::Expiry;
  EXPECT_THAT(Expired(queue, 1'000), ElementsAre(std::pair(1, kTimeout)));
  EXPECT_EQ(queue.size(0), 1);
  EXPECT_EQ(queue.size(1), 0);
  EXPECT_EQ(queue.size(2), 1);
  EXPECT_THAT(Expired(queue, 2'000), ElementsAre(std::pair(2, kTimeout)));
  EXPECT_EQ(queue.size(), 1);
}

TEST_F(TaskQueueTest, CountsEveryImageOfALongLine) {
  for (int i = 0; i < 10'000; ++i) Add({.number = i, .images = 2, .deadline = 1'000 + i});
  EXPECT_EQ(queue_.ImagesBefore(0, 1'000 + 4'999), 10'000);
  EXPECT_EQ(queue_.ImagesBefore(0, 1'000 + 9'999), 20'000);
}

TEST_F(TaskQueueTest, CountsTheImagesBeforeANewcomer) {
  EXPECT_EQ(queue_.ImagesBefore(0, 100), 0);
  Add({.number = 1, .images = 2, .deadline = 1'000});
  Add({.number = 2, .images = 3, .deadline = 2'000});
  Add({.number = 3, .images = 4, .priority = 1, .deadline = 500});
  EXPECT_EQ(queue_.ImagesBefore(0, 500), 0);
  EXPECT_EQ(queue_.ImagesBefore(0, 1'500), 2);
  EXPECT_EQ(queue_.ImagesBefore(0, 9'000), 5);
  EXPECT_EQ(queue_.ImagesBefore(1, 400), 5);
  EXPECT_EQ(queue_.ImagesBefore(1, 9'000), 9);
}

TEST_F(TaskQueueTest, RemovesATaskByItsId) {
  Add({.number = 1, .images = 2, .deadline = 100});
  Add({.number = 2, .images = 3, .deadline = 200});
  EXPECT_EQ(queue_.Find(3), nullptr);
  ASSERT_NE(queue_.Find(1), nullptr);
  EXPECT_EQ(RecordOf(*queue_.Remove(1)).number, 1);
  EXPECT_EQ(queue_.Find(1), nullptr);
  EXPECT_EQ(queue_.images(), 3);
  EXPECT_EQ(queue_.NextExpiry(), 200);
  EXPECT_THAT(Take(8), ElementsAre(2));
}

}  // namespace
}  // namespace fovea
