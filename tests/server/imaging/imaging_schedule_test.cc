#include "server/imaging/imaging_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace fovea {
namespace {

using testing::ElementsAre;

constexpr Nanos kMs = kMillisecond;
constexpr ImagingWork kPhoto{ImageKind::kJpeg, 12'000'000};

class ImagingScheduleTest : public testing::Test {
 protected:
  // A schedule of `threads` that has seen a photograph take 60 ms.
  void Make(int threads) {
    schedule_.emplace(threads);
    line_ = schedule_->AddLine();
    schedule_->Add(line_, {.work = kPhoto});
    schedule_->Done(*schedule_->Next(now_), 60 * kMs, 60 * kMs, now_);
  }
  ImagingTaskId Add(Nanos order, int priority = 0, ImagingWork work = kPhoto) {
    return schedule_->Add(line_, {.work = work, .priority = priority, .order = order});
  }
  std::vector<ImagingTaskId> TakeAll() {
    std::vector<ImagingTaskId> taken;
    while (auto next = schedule_->Next(now_)) taken.push_back(*next);
    return taken;
  }
  Nanos Forecast(Nanos order, std::vector<ImagingWork> images = {kPhoto}, int priority = 0) {
    return schedule_->Forecast(line_, priority, order, images, now_) - now_;
  }

  Nanos now_ = kSecond;
  std::optional<ImagingSchedule> schedule_;
  ImagingLineId line_ = 0;
};

TEST_F(ImagingScheduleTest, TakesTheEarliestDeadlineOfTheBestPriorityFirst) {
  Make(1);
  const ImagingTaskId late = Add(300), urgent = Add(100), low = Add(50, /*priority=*/1),
                      second = Add(100);
  EXPECT_EQ(schedule_->waiting(), 4);
  EXPECT_THAT(TakeAll(), ElementsAre(urgent, second, late, low));
  EXPECT_EQ(schedule_->waiting(), 0);
}

// A thumbnail takes what resizing and a call take, and hardly more.
TEST_F(ImagingScheduleTest, ThumbnailsDoNotSayWhatPhotographsTake) {
  schedule_.emplace(1);
  line_ = schedule_->AddLine();
  constexpr ImagingWork kThumbnail{ImageKind::kJpeg, 32 * 32};
  for (int i = 0; i < 100; ++i) {
    schedule_->Add(line_, {.work = kThumbnail});
    schedule_->Done(*schedule_->Next(now_), kMs, kMs, now_);
  }
  EXPECT_EQ(Forecast(now_ + 500 * kMs), 0) << "nobody knows";
  schedule_->Add(line_, {.work = kPhoto, .ready_by = now_ + 100 * kMs});
  const ImagingTaskId photo = *schedule_->Next(now_);
  EXPECT_FALSE(schedule_->Hopeless(photo, now_));
  // Once one was decoded it is known, whatever else comes.
  schedule_->Done(photo, 90 * kMs, 90 * kMs, now_);
  EXPECT_GT(Forecast(now_ + 500 * kMs), 40 * kMs);
  schedule_->Add(line_, {.work = kPhoto, .ready_by = now_ + kMs});
  EXPECT_TRUE(schedule_->Hopeless(*schedule_->Next(now_), now_));
}

// A photograph that is decoded small for one model says nothing of the same one decoded whole.
TEST_F(ImagingScheduleTest, PicturesDecodedSmallerAreLearntApart) {
  Make(1);
  constexpr ImagingWork kSmaller{ImageKind::kJpeg, 12'000'000, /*halvings=*/2};
  EXPECT_EQ(Forecast(now_ + 500 * kMs, {kSmaller}), 0) << "nobody knows";
  for (int i = 0; i < 100; ++i) {
    schedule_->Add(line_, {.work = kSmaller});
    schedule_->Done(*schedule_->Next(now_), 20 * kMs, 20 * kMs, now_);
  }
  EXPECT_NEAR(Forecast(now_ + 500 * kMs, {kSmaller}), 20 * kMs, kMs);
  EXPECT_NEAR(Forecast(now_ + 500 * kMs), 60 * kMs, kMs);
  EXPECT_EQ(Forecast(now_ + 500 * kMs, {{ImageKind::kJpeg, 12'000'000, 3}}), 0);
}

TEST_F(ImagingScheduleTest, SharesTheThreadsTimeBetweenModels) {
  Make(1);
  const ImagingLineId other = schedule_->AddLine();
  constexpr ImagingWork kSmall{ImageKind::kJpeg, 2'000'000};
  for (int i = 0; i < 100; ++i) {
    schedule_->Add(line_, {.work = kPhoto});
    schedule_->Add(other, {.work = kSmall});
  }
  std::map<bool, Nanos> spent;
  Nanos all = 0;
  while (all < 1000 * kMs) {
    const ImagingTaskId task = *schedule_->Next(now_);
    // Tasks of the first line have odd numbers from the second on.
    const bool large = task % 2 == 0;
    const Nanos took = large ? 60 * kMs : 10 * kMs;
    now_ += took;
    schedule_->Done(task, took, took, now_);
    spent[large] += took;
    all += took;
  }
  EXPECT_NEAR(spent[true], spent[false], 70 * kMs);
}

// A thread that waits for memory is nobody else's; how long images take it does not tell.
TEST_F(ImagingScheduleTest, ChargesTheTimeThatAThreadWaitedAndDoesNotLearnFromIt) {
  Make(1);
  const ImagingLineId other = schedule_->AddLine();
  int waiting = 0, others = 0;
  for (int i = 0; i < 100; ++i) {
    schedule_->Add(line_, {.work = kPhoto});  // even numbers, from here on
    schedule_->Add(other, {.work = kPhoto});
  }
  for (Nanos all = 0; all < 2400 * kMs;) {
    const ImagingTaskId task = *schedule_->Next(now_);
    const bool waits = task % 2 == 0;
    const Nanos took = waits ? 240 * kMs : 60 * kMs;
    now_ += took;
    all += took;
    schedule_->Done(task, took, 60 * kMs, now_);
    ++(waits ? waiting : others);
  }
  EXPECT_NEAR(others, 4 * waiting, 4);
  EXPECT_EQ(Forecast(100), (100 - waiting + 100 - others + 1) * 60 * kMs);
}

TEST_F(ImagingScheduleTest, ForecastsFromTheWorkThatWouldComeFirst) {
  Make(1);
  EXPECT_EQ(Forecast(100), 60 * kMs);
  Add(50);
  Add(200);
  Add(10, /*priority=*/1);
  EXPECT_EQ(Forecast(100), 120 * kMs);
  EXPECT_EQ(Forecast(300), 180 * kMs);
  EXPECT_EQ(Forecast(300, {kPhoto}, /*priority=*/1), 240 * kMs);
}

TEST_F(ImagingScheduleTest, ForecastsWhatIsLeftOfRunningImages) {
  Make(1);
  Add(50);
  ASSERT_TRUE(schedule_->Next(now_).has_value());
  now_ += 20 * kMs;
  EXPECT_EQ(Forecast(100), 100 * kMs);
  now_ += 100 * kMs;  // longer than it should
  EXPECT_EQ(Forecast(100), 60 * kMs);
}

TEST_F(ImagingScheduleTest, ForecastsSeveralThreads) {
  Make(2);
  EXPECT_EQ(Forecast(100), 60 * kMs);
  EXPECT_EQ(Forecast(100, {kPhoto, kPhoto, kPhoto}), 120 * kMs);
  for (int i = 0; i < 4; ++i) Add(50);
  EXPECT_EQ(Forecast(100), 180 * kMs);
}

// Or an overloaded server that once was slow would turn everybody away, and never learn better.
TEST_F(ImagingScheduleTest, TakesAnImageForWhichAThreadIsIdleToBeAsFastAsEver) {
  Make(2);
  for (int i = 0; i < 10; ++i) {
    Add(50);
    schedule_->Done(*schedule_->Next(now_), 500 * kMs, 500 * kMs, now_);
  }
  EXPECT_EQ(Forecast(100), 60 * kMs);
  Add(50);
  ASSERT_TRUE(schedule_->Next(now_).has_value());
  EXPECT_EQ(Forecast(100), 60 * kMs);
  Add(50);
  ASSERT_TRUE(schedule_->Next(now_).has_value());
  EXPECT_EQ(Forecast(100), 1'000 * kMs);
}

TEST_F(ImagingScheduleTest, CountsTheTurnsOfOtherModels) {
  Make(1);
  const ImagingLineId other = schedule_->AddLine();
  for (int i = 0; i < 50; ++i) schedule_->Add(other, {.work = kPhoto});
  EXPECT_EQ(Forecast(100), 120 * kMs);  // one turn each
}

TEST_F(ImagingScheduleTest, IsExactInALongLine) {
  Make(1);
  for (int i = 0; i < 10'000; ++i) Add(i);
  EXPECT_EQ(Forecast(9'000), 9'002 * 60 * kMs);
}

TEST_F(ImagingScheduleTest, TakesAnImageOfAnotherSizeToBeProportional) {
  Make(1);
  EXPECT_NEAR(Forecast(100, {{ImageKind::kJpeg, 3'000'000}}), 15 * kMs, 2 * kMs);
  EXPECT_NEAR(Forecast(100, {{ImageKind::kJpeg, 48'000'000}}), 240 * kMs, 25 * kMs);
}

// Every class of every pixel of the largest picture, and an hour for the smallest.
TEST_F(ImagingScheduleTest, ForecastsWorkBeyondAllMeasure) {
  constexpr ImagingWork kAll{ImageKind::kResults, 50'000'000 * int64_t{65'536}};
  constexpr ImagingWork kHalf{ImageKind::kResults, kAll.amount / 2};
  constexpr Nanos kHour = 3600 * kSecond;
  Make(1);
  const auto record = [&](const ImagingWork& work, Nanos took) {
    Add(50, 0, work);
    schedule_->Done(*schedule_->Next(now_), took, took, now_);
  };
  record(kAll, 2 * kHour);
  EXPECT_EQ(Forecast(100, {kAll}), kHour);
  EXPECT_EQ(Forecast(100, {kHalf}), kHour) << "neither is told from the other";

  Make(1);
  constexpr ImagingWork kOne{ImageKind::kResults, 1};
  record(kOne, 2 * kHour);
  Add(50, 0, kAll);
  EXPECT_GT(Forecast(100, {kOne}), 1000 * kHour) << "as much longer as it is larger";
}

TEST_F(ImagingScheduleTest, SaysNothingOfKindsThatItDoesNotKnowOrNoLongerTrusts) {
  Make(1);
  Add(50);
  EXPECT_EQ(Forecast(100, {{ImageKind::kPng, 12'000'000}}), 0);
  now_ += LatencyModel::kTrust;
  EXPECT_EQ(Forecast(100), 0);
}

TEST_F(ImagingScheduleTest, LearnsFromImagesThatWereDecodedOnly) {
  Make(1);
  for (int i = 0; i < 50; ++i) {
    Add(50);
    schedule_->Done(*schedule_->Next(now_), 1, std::nullopt, now_);
  }
  EXPECT_EQ(Forecast(100), 60 * kMs);
}

TEST_F(ImagingScheduleTest, KnowsWhichImageWouldBeReadyTooLate) {
  Make(1);
  const auto hopeless = [&](Nanos ready_by) {
    schedule_->Add(line_, {.work = kPhoto, .ready_by = ready_by});
    const ImagingTaskId task = *schedule_->Next(now_);
    const bool answer = schedule_->Hopeless(task, now_);
    schedule_->Done(task, 0, std::nullopt, now_);
    return answer;
  };
  EXPECT_TRUE(hopeless(now_ + 59 * kMs));
  EXPECT_FALSE(hopeless(now_ + 60 * kMs));
  EXPECT_FALSE(hopeless(kNever));
}

class ResultsInLine : public ImagingScheduleTest {
 protected:
  ImagingTaskId AddResults(uint64_t request, ImagingLineId line) {
    return schedule_->Add(line, {.work = {ImageKind::kResults, 1000}, .split_from = request});
  }
  ImagingTaskId AddResults(uint64_t request) { return AddResults(request, line_); }
  void Done(ImagingTaskId task) { schedule_->Done(task, kMs, kMs, now_); }
  // That they take 1 ms.
  void KnowResults() {
    AddResults(0);
    Done(*schedule_->Next(now_));
  }
  Nanos ForecastOfFour() {
    const std::vector<ImagingWork> four(4, {ImageKind::kResults, 1000});
    return schedule_->Forecast(line_, 0, 100, four, now_) - now_;
  }
};

TEST_F(ResultsInLine, OfOneRequestLeaveAThreadToOthers) {
  Make(3);
  const ImagingTaskId first = AddResults(7), second = AddResults(7), third = AddResults(7),
                      fourth = AddResults(7);
  EXPECT_EQ(schedule_->waiting(), 4);
  EXPECT_THAT(TakeAll(), ElementsAre(first, second));
  EXPECT_FALSE(schedule_->has_next());
  EXPECT_EQ(schedule_->waiting(), 2);
  EXPECT_EQ(schedule_->waiting(line_), 2);

  const ImagingTaskId other = AddResults(8), alone = AddResults(0), photo = Add(50);
  EXPECT_TRUE(schedule_->has_next());
  std::vector<ImagingTaskId> others = TakeAll();
  EXPECT_THAT(others, testing::UnorderedElementsAre(other, alone, photo));
  for (const ImagingTaskId task : others) Done(task);
  EXPECT_FALSE(schedule_->has_next()) << "they were not its own";

  Done(second);
  EXPECT_THAT(TakeAll(), ElementsAre(third));
  Done(first);
  EXPECT_THAT(TakeAll(), ElementsAre(fourth));
  Done(third);
  Done(fourth);
  EXPECT_EQ(schedule_->waiting(), 0);
  schedule_->RemoveLine(line_);
}

TEST_F(ResultsInLine, OfOneRequestRunOneByOneOnFewThreads) {
  for (const int threads : {1, 2}) {
    Make(threads);
    const ImagingTaskId first = AddResults(7), second = AddResults(7);
    EXPECT_THAT(TakeAll(), ElementsAre(first));
    Done(first);
    EXPECT_THAT(TakeAll(), ElementsAre(second));
    Done(second);
    // Its number says nothing of those that come later.
    const ImagingTaskId third = AddResults(7);
    EXPECT_THAT(TakeAll(), ElementsAre(third));
  }
}

TEST_F(ResultsInLine, ThatAreHeldBackCountAsALineInUseAndAsWorkWhereTheyCanDelay) {
  Make(2);
  const ImagingLineId other = schedule_->AddLine();
  AddResults(0);
  Done(*schedule_->Next(now_));  // it is known how long they take: 1 ms
  AddResults(7, other);
  AddResults(7, other);
  AddResults(7, other);
  const ImagingTaskId running = *schedule_->Next(now_);
  EXPECT_EQ(schedule_->lines_in_use(line_), 2);
  constexpr ImagingWork kOne{ImageKind::kResults, 1000};
  const auto forecast = [&] { return schedule_->Forecast(other, 0, 100, {&kOne, 1}, now_) - now_; };
  EXPECT_EQ(forecast(), kMs) << "a thread is idle";
  AddResults(0, other);
  ASSERT_TRUE(schedule_->Next(now_).has_value());
  // Two run, and it. What is held back leaves it a thread.
  EXPECT_EQ(forecast(), 2 * kMs);
  AddResults(8, other);
  AddResults(8, other);
  AddResults(8, other);
  AddResults(8, other);
  // Two requests may take both threads until the one that holds back less has no more.
  EXPECT_EQ(forecast(), 9 * kMs / 2);
  Done(running);
}

TEST_F(ResultsInLine, ThatAnotherModelsRequestHoldsBackHaveAnEqualPartOfOneThread) {
  Make(1);
  KnowResults();
  const ImagingLineId other = schedule_->AddLine();
  for (int i = 0; i < 10; ++i) AddResults(7, other);
  ASSERT_TRUE(schedule_->Next(now_).has_value());
  // One runs; then four of each model.
  EXPECT_EQ(ForecastOfFour(), 9 * kMs);
}

TEST_F(ResultsInLine, ThatRequestsForOtherModelsHoldBackDelayWhereTheyTakeEveryThread) {
  Make(2);
  KnowResults();
  const ImagingLineId other = schedule_->AddLine(), third = schedule_->AddLine();
  for (int i = 0; i < 10; ++i) AddResults(7, other);
  AddResults(0, other);
  EXPECT_EQ(TakeAll().size(), 2u);
  // Two run, and the four. One request leaves a thread to this model.
  EXPECT_EQ(ForecastOfFour(), 7 * kMs / 2);
  // One of these is ready, two are held back: until they are done, two requests take both threads.
  for (int i = 0; i < 3; ++i) AddResults(8, third);
  EXPECT_EQ(ForecastOfFour(), 6 * kMs);
}

TEST_F(ResultsInLine, ThatAreHeldBackDelayAllOthersOnOneThread) {
  Make(1);
  AddResults(0);
  Done(*schedule_->Next(now_));
  AddResults(7);
  AddResults(7);
  AddResults(7);
  ASSERT_TRUE(schedule_->Next(now_).has_value());
  constexpr ImagingWork kOne{ImageKind::kResults, 1000};
  EXPECT_EQ(schedule_->Forecast(line_, 0, 100, {&kOne, 1}, now_) - now_, 4 * kMs);
}

TEST_F(ImagingScheduleTest, OutlivesTheLineOfARunningImage) {
  Make(1);
  Add(50);
  const ImagingTaskId task = *schedule_->Next(now_);
  schedule_->RemoveLine(line_);
  schedule_->Done(task, 60 * kMs, 60 * kMs, now_);
  EXPECT_FALSE(schedule_->Next(now_).has_value());
}

}  // namespace
}  // namespace fovea
