// What is left to do when a model has run, of pictures whose results take long to make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/status.h"
#include "server/core/request_memory.h"
#include "server/core/testing/notification.h"
#include "server/imaging/probe.h"
#include "server/pipeline/served_model.h"
#include "server/pipeline/silent_observer.h"
#include "tests/server/pipeline/watched_clock.h"

namespace fovea {
namespace {

constexpr int kRows = 300, kColumns = 40;

// Steady time, which imaging's threads are told, once `on`, when they are released.
class HoldingClock final : public Clock {
 public:
  Nanos Now() const override {
    if (on) {
      char name[16] = {};
      pthread_getname_np(pthread_self(), name, sizeof(name));
      if (std::string_view(name) == "imaging") {
        ++held;
        release.Wait();
      }
    }
    return SteadyClock().Now();
  }
  void WaitUntil(CondVar& condition, Mutex& mutex, Nanos until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    SteadyClock().WaitUntil(condition, mutex, until);
  }

  std::atomic<bool> on = false;
  mutable std::atomic<int> held = 0;  // that were, or are
  mutable Notification release;
};

class BatchObserver final : public SilentObserver {
 public:
  // `ran` is set once a batch has run; `wasted` is that of imaging, all together.
  BatchObserver(std::atomic<bool>& ran, std::atomic<Nanos>& wasted) : ran_(ran), wasted_(wasted) {}
  void OnBatch(const BatchRun&) override { ran_ = true; }
  void OnImagingWasted(Nanos time) override { wasted_ += time; }

 private:
  std::atomic<bool>& ran_;
  std::atomic<Nanos>& wasted_;
};

class ResultsTest : public testing::Test {
 protected:
  void SetUp() override {
    Load("max_batch_size: 1", clock_, clock_.counting, &model_);
    ASSERT_NE(model_, nullptr);
  }

  void Load(const std::string& batching, Clock& clock, std::atomic<bool>& ran,
            std::shared_ptr<ServedModel>* model) {
    VersionToLoad parsed{.name = "segmenter", .version = 1};
    auto spec = ParseModelSpec(
        "spec_version: 1 backbone: \"linglo_b0\" task: SEGMENTATION num_classes: 3 "
        "head { name: \"semantic_fpn\" } image_height: 64 image_width: 64 "
        "preprocessing { shorter_side: 64 longer_side: 64 } "
        "random_weights { seed: 1 } " +
            batching,
        "segmenter");
    ASSERT_TRUE(spec.ok()) << spec.status();
    parsed.spec = *std::move(spec);
    auto created =
        ServedModel::Create(parsed, {.scheduler = *scheduler_,
                                     .imaging = *imaging_,
                                     .clock = clock,
                                     .observe =
                                         [&ran, this](const std::shared_ptr<const ModelView>&) {
                                           return std::make_unique<BatchObserver>(ran, wasted_);
                                         },
                                     .device_threads = 1,
                                     .drain_timeout_us = 10'000'000});
    ASSERT_TRUE(created.ok()) << created.status();
    *model = std::static_pointer_cast<ServedModel>(*created);
  }

  using Answer = absl::StatusOr<InferenceResponse>;
  std::future<Answer> Send(RequestOptions options = SegmentOptions(), int64_t rows = kRows,
                           int64_t columns = kColumns) {
    return SendTo(*model_, /*images=*/1, std::move(options), rows, columns);
  }
  std::future<Answer> SendTo(const ServedModel& model, int64_t images,
                             RequestOptions options = SegmentOptions(), int64_t rows = kRows,
                             int64_t columns = kColumns) {
    const int64_t bytes = 3 * images * rows * columns;
    return SendTensor(model,
                      {"image_rgb",
                       DataType::kUint8,
                       {images, rows, columns, 3},
                       ScatteredBytes::Copy(std::string(bytes, 'A'))},
                      std::move(options));
  }
  std::future<Answer> SendTensor(const ServedModel& model, InputTensor tensor,
                                 RequestOptions options, RequestMemory* memory = nullptr) {
    auto request = std::make_unique<InferenceRequest>();
    request->input = NamedTensors{std::move(tensor)};
    request->memory = memory;
    request->options = std::move(options);
    request->cancellation = cancellation_;
    request->deadline = clock_.Now() + 600 * kSecond;
    request->stages = StageTimes(clock_.Now());
    auto promise = std::make_shared<std::promise<Answer>>();
    ServingModel::Infer(
        std::shared_ptr<const ServingModel>(std::shared_ptr<void>(), &model), std::move(request),
        [promise](Answer answer, const StageTimes&) { promise->set_value(std::move(answer)); });
    return promise->get_future();
  }

  // In the middle of the map.
  void InTheMiddle(std::function<void()> event) {
    clock_.event_at = kRows / 2;
    clock_.event = std::move(event);
  }

  WatchedClock clock_;
  std::atomic<Nanos> wasted_ = 0;
  const CancellationPtr cancellation_ = std::make_shared<Cancellation>();
  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::Create({.device_threads = 1}, clock_);
  std::unique_ptr<ImagingPool> imaging_ = *ImagingPool::Create({.threads = 2}, clock_);
  std::shared_ptr<ServedModel> model_;
};

TEST_F(ResultsTest, TakeTheirRows) {
  const Answer answer = Send().get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_GE(clock_.asked, kRows) << "or the tests below test nothing";
  EXPECT_EQ(wasted_, 0);
}

TEST_F(ResultsTest, Row62EndWhenTheirDeadlineHasPassed) {
  InTheMiddle([this] { clock_.ahead = 1200 * kSecond; });
  const Answer answer = Send().get();
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(answer.status()), "request.deadline_passed");
  EXPECT_LT(clock_.asked, kRows / 2 + 10) << "the rest is not made";
  EXPECT_GE(wasted_, 1200 * kSecond) << "what was made";
}

TEST_F(ResultsTest, Row62EndWhenTheirCallerHasGone) {
  InTheMiddle([this] { cancellation_->Cancel(); });
  const Answer answer = Send().get();
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReasonOf(answer.status()), "request.cancelled");
  EXPECT_LT(clock_.asked, kRows / 2 + 10) << "the rest is not made";
}

TEST_F(ResultsTest, HoldUpNoOtherRequest) {
  Notification under_way, release;
  InTheMiddle([&] {
    under_way.Notify();
    release.Wait();
  });
  std::future<Answer> slow = Send();
  under_way.Wait();
  for (const RequestOptions& options :
       {RequestOptions(WantedTensors{{{"logits", 0}}}), RequestOptions(SegmentOptions())}) {
    const Answer other = Send(options).get();
    EXPECT_TRUE(other.ok()) << other.status();
  }
  release.Notify();
  const Answer answer = slow.get();
  EXPECT_TRUE(answer.ok()) << answer.status();
}

// As many pictures as there are threads: their results leave one to the others.
TEST_F(ResultsTest, OfSeveralPicturesHoldUpNoOtherRequest) {
  HoldingClock holding;
  std::shared_ptr<ServedModel> slow_model;
  // Both in one batch: when its results are made, nothing of it is decoded any more.
  Load("max_batch_size: 2 dynamic_batching { max_queue_delay_microseconds: 10000000 }", holding,
       holding.on, &slow_model);
  ASSERT_NE(slow_model, nullptr);
  holding.on = false;  // its own batches at load
  std::future<Answer> slow = SendTo(*slow_model, 2);
  while (holding.held == 0 || holding.held + imaging_->queued() < 2) std::this_thread::yield();
  EXPECT_EQ(holding.held, 1) << "of two threads";

  std::future<Answer> others[] = {Send(), Send(WantedTensors{{{"logits", 0}}}), SendTo(*model_, 2),
                                  SendTo(*model_, 3)};
  for (std::future<Answer>& other : others) {
    EXPECT_EQ(other.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  }
  EXPECT_EQ(holding.held, 1) << "the other picture waits";
  holding.on = false;
  holding.release.Notify();
  const Answer answer = slow.get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(std::get<SegmentResults>(answer->results).size(), 2u);
  for (std::future<Answer>& other : others) {
    const Answer answered = other.get();
    EXPECT_TRUE(answered.ok()) << answered.status();
  }
}

// An uncompressed TIFF, whose directory follows its pixels.
std::string Tiff(int height, int width) {
  const std::string pixels(size_t{3} * height * width, 'A');
  std::string file = "II*";
  const auto append = [&file](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<char>(value >> 8 * i));
  };
  const auto size = static_cast<uint32_t>(pixels.size());
  append(0, 1);
  append(8 + size, 4);
  file += pixels;
  const std::pair<int, uint32_t> entries[] = {{256, width}, {257, height}, {258, 8},
                                              {259, 1},     {262, 2},      {273, 8},
                                              {277, 3},     {278, height}, {279, size}};
  append(std::size(entries), 2);
  for (const auto& [tag, value] : entries) {
    append(tag, 2);
    append(4, 2);  // 32 bits each
    append(1, 4);
    append(value, 4);
  }
  append(0, 4);
  return file;
}

InputTensor FileTensor(std::string_view file) {
  std::string element(sizeof(uint32_t), '\0');
  const auto size = static_cast<uint32_t>(file.size());
  std::memcpy(element.data(), &size, sizeof(size));
  return {"image", DataType::kBytes, {1, 1}, ScatteredBytes::Copy(element.append(file))};
}

// The first bytes of a file do not tell its picture's size if the header follows the pixels.
TEST_F(ResultsTest, TakeTheMemoryOfWhatWasDecoded) {
  MemoryBudget budget(64 * limits::kMiB, clock_);
  const std::string file = Tiff(kRows, kColumns * 2);
  ASSERT_GT(file.size(), kPeekBytes);
  RequestMemory of_file(budget);
  const Answer answer = SendTensor(*model_, FileTensor(file), SegmentOptions(), &of_file).get();
  ASSERT_TRUE(answer.ok()) << answer.status();

  RequestMemory of_pixels(budget);
  InputTensor pixels{"image_rgb",
                     DataType::kUint8,
                     {1, kRows, kColumns * 2, 3},
                     ScatteredBytes::Copy(std::string(3 * kRows * kColumns * 2, 'A'))};
  ASSERT_TRUE(SendTensor(*model_, std::move(pixels), SegmentOptions(), &of_pixels).get().ok());
  EXPECT_EQ(of_file.bytes(), of_pixels.bytes());

  MemoryBudget small(of_pixels.bytes() - 1, clock_);
  RequestMemory none(small);
  const Answer refused = SendTensor(*model_, FileTensor(file), SegmentOptions(), &none).get();
  EXPECT_EQ(ReasonOf(refused.status()), "request.memory");
}

TEST_F(ResultsTest, OfNoPictureTakeNoMemory) {
  std::string large("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x4e\x20\0\0\x4e\x20\x08\2\0\0\0\0\0\0\0",
                    33);
  MemoryBudget budget(limits::kMiB, clock_);
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"<svg/>", "image.unsupported_type"}, {large, "image."}};
  for (const auto& [file, reason] : cases) {
    RequestMemory memory(budget);
    const Answer answer = SendTensor(*model_, FileTensor(file), SegmentOptions(), &memory).get();
    EXPECT_THAT(ReasonOf(answer.status()), testing::StartsWith(std::string(reason)));
  }
}

// What suppressing boxes takes is not told by what maps of large pictures took.
TEST_F(ResultsTest, AreForeseenByTheirPixels) {
  constexpr int64_t kLargeRows = 1200, kLargeColumns = 1000;
  constexpr ImagingWork kLarge{ImageKind::kResults, kLargeRows * kLargeColumns};
  constexpr ImagingWork kSmall{ImageKind::kResults, 1};
  InTheMiddle([this] { clock_.ahead = 50 * kSecond; });
  const Answer answer = Send(SegmentOptions(), kLargeRows, kLargeColumns).get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto takes = [&](const ImagingWork& work) {
    const Nanos now = clock_.Now();
    return model_->imaging_line().Forecast(0, kNever, {&work, 1}) - now;
  };
  while (takes(kLarge) < 50 * kSecond) std::this_thread::yield();  // until it is counted
  // Every image's fixed part is that of 64,000 pixels.
  EXPECT_LT(takes(kSmall), takes(kLarge) / 10);
}

// The confidence of a pixel has a number for each class.
TEST_F(ResultsTest, AreForeseenByTheirClassesWhereEachPixelHasThemAll) {
  constexpr int64_t kLargeRows = 1200, kLargeColumns = 1000, kClasses = 3;
  constexpr ImagingWork kMap{ImageKind::kResults, kLargeRows * kLargeColumns};
  constexpr ImagingWork kSure{ImageKind::kResults, kClasses * kMap.amount};
  InTheMiddle([this] { clock_.ahead = 50 * kSecond; });
  const Answer answer = Send(SegmentOptions{.confidence = true}, kLargeRows, kLargeColumns).get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto takes = [&](const ImagingWork& work) {
    const Nanos now = clock_.Now();
    return model_->imaging_line().Forecast(0, kNever, {&work, 1}) - now;
  };
  while (takes(kSure) < 50 * kSecond) std::this_thread::yield();  // until it is counted
  // A third of it, and the part that every image has. As long as that, were a pixel one number.
  EXPECT_LT(takes(kMap), 30 * kSecond);
}

}  // namespace
}  // namespace fovea
