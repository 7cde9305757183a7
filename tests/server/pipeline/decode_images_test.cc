#include "server/pipeline/decode_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/core/testing/notification.h"
#include "tests/resident_bytes.h"

namespace fovea {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr int kSide = 8;  // of the model's input

class DecodeImagesTest : public testing::Test {
 protected:
  void MakePool(const ImagingPoolOptions& options) {
    pool_ = *ImagingPool::Create(options, SteadyClock());
    line_ = pool_->AddLine();
  }
  // Nothing may be in a line that goes.
  void TearDown() override {
    while (pool_->queued() > 0) std::this_thread::yield();
    line_.reset();
  }

  // Images of one pixel each, of these levels.
  void UseRgb(const std::vector<uint8_t>& levels) {
    std::string pixels;
    for (const uint8_t level : levels) pixels.append(3, static_cast<char>(level));
    tensor_ = {"image_rgb",
               DataType::kUint8,
               {static_cast<int64_t>(levels.size()), 1, 1, 3},
               ScatteredBytes::Copy(pixels)};
    input_ = {.kind = InputKind::kImageRgb,
              .tensor = &tensor_,
              .images = static_cast<int>(levels.size())};
  }

  void UseFiles(const std::vector<std::string>& files) {
    input_ = {.kind = InputKind::kImage, .images = static_cast<int>(files.size())};
    for (const std::string& file : files) input_.files.push_back(ScatteredBytes::Copy(file));
  }

  std::future<DecodedImages> Decode(CancellationPtr cancellation = nullptr) {
    auto promise = std::make_shared<std::promise<DecodedImages>>();
    DecodeImages(ImagesToDecode(input_, spec_), spec_, {}, cancellation, order_, *line_, *pool_,
                 SteadyClock(), [this, promise](DecodedImages images) {
                   ++calls_;
                   promise->set_value(std::move(images));
                 });
    return promise->get_future();
  }

  // Keeps a thread of the pool busy.
  void Block() {
    ASSERT_TRUE(line_
                    ->Submit({.run =
                                  [this](const absl::Status&) {
                                    blocked_.Notify();
                                    unblock_.Wait();
                                    return true;
                                  }})
                    .ok());
    blocked_.Wait();
  }

  const PreprocessSpec spec_{.sizes = {{kSide, kSide}}};
  InputTensor tensor_;
  AcceptedInput input_;
  std::atomic<int> calls_{0};
  Notification blocked_, unblock_;
  DecodeOrder order_;
  std::unique_ptr<ImagingLine> line_;
  std::unique_ptr<ImagingPool> pool_;  // last: its threads use the rest
};

TEST_F(DecodeImagesTest, EveryImageComesToItsPlace) {
  MakePool({.threads = 2});
  std::vector<uint8_t> levels;
  for (int i = 0; i < 50; ++i) levels.push_back(static_cast<uint8_t>(5 * i));
  UseRgb(levels);
  const DecodedImages images = Decode().get();
  ASSERT_TRUE(images.pixels.ok()) << images.pixels.status();
  const std::vector<ResizedImage>& all = images.pixels->images;
  ASSERT_EQ(all.size(), levels.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    EXPECT_EQ(all[i].rgb.size(), size_t{3 * kSide * kSide});
    EXPECT_THAT(all[i].rgb, Each(levels[i]));
  }
  EXPECT_LE(images.began, images.ended);
  EXPECT_EQ(images.decode, 0);
}

TEST_F(DecodeImagesTest, EveryImageIsWorkOfItsOwn) {
  MakePool({.threads = 1});
  Block();
  UseRgb({1, 2, 3});
  auto images = Decode();
  EXPECT_EQ(pool_->queued(), 3);
  unblock_.Notify();
  EXPECT_TRUE(images.get().pixels.ok());
}

TEST_F(DecodeImagesTest, ARequestThatThePoolDoesNotTakeFailsAtOnce) {
  MakePool({.threads = 1, .max_queued = 1});
  Block();
  ASSERT_TRUE(line_->Submit({.run = [](const absl::Status&) { return true; }}).ok());
  UseRgb({1, 2, 3});
  auto images = Decode();
  EXPECT_EQ(calls_, 1) << "none of its images waits for a turn";
  const DecodedImages result = images.get();
  EXPECT_EQ(ReasonOf(result.pixels.status()), "image.queue_full");
  EXPECT_EQ(result.began, kNever);
  unblock_.Notify();
}

TEST_F(DecodeImagesTest, AnErrorNamesItsImage) {
  MakePool({.threads = 2});
  UseFiles({"not an image"});
  const absl::Status alone = Decode().get().pixels.status();
  EXPECT_TRUE(absl::IsInvalidArgument(alone)) << alone;
  EXPECT_THAT(std::string(alone.message()), testing::Not(HasSubstr("image 1")));
  UseFiles({"not an image", "neither"});
  const absl::Status second = Decode().get().pixels.status();
  EXPECT_EQ(ReasonOf(second), ReasonOf(alone));
  EXPECT_THAT(std::string(second.message()), HasSubstr(" of 2: "));
}

TEST_F(DecodeImagesTest, WhatNobodyWaitsForIsNotDecoded) {
  MakePool({.threads = 1});
  Block();
  UseRgb({1, 2});
  const auto cancellation = std::make_shared<Cancellation>();
  auto images = Decode(cancellation);
  cancellation->Cancel();
  unblock_.Notify();
  const DecodedImages result = images.get();
  EXPECT_TRUE(absl::IsCancelled(result.pixels.status()));
  EXPECT_EQ(result.began, kNever);
}

TEST_F(DecodeImagesTest, WhatWouldBeReadyTooLateForItsModelIsNotDecoded) {
  MakePool({.threads = 1});
  UseRgb({1});
  ASSERT_TRUE(Decode().get().pixels.ok());  // measured
  order_.ready_by = SteadyClock().Now() - kSecond;
  const DecodedImages result = Decode().get();
  EXPECT_EQ(ReasonOf(result.pixels.status()), "queue.unreachable_deadline");
  EXPECT_EQ(result.began, kNever);
}

TEST_F(DecodeImagesTest, MakesRoomForPixelsAtTheFirstTurnOnly) {
  MakePool({.threads = 1});
  Block();
  UseRgb(std::vector<uint8_t>(100, 1));
  const PreprocessSpec large{.sizes = {{1024, 1024}}};  // 315 MB in all
  const int64_t before = ResidentBytes();
  std::promise<absl::Status> done;
  const auto cancellation = std::make_shared<Cancellation>();
  DecodeImages(ImagesToDecode(input_, large), large, {}, cancellation, order_, *line_, *pool_,
               SteadyClock(),
               [&done](DecodedImages images) { done.set_value(images.pixels.status()); });
  EXPECT_LT(ResidentBytes() - before, 30 << 20);
  cancellation->Cancel();
  unblock_.Notify();
  EXPECT_TRUE(absl::IsCancelled(done.get_future().get()));
}

TEST(ImagesToDecodeTest, KnowTheSizesOfFilesFromTheirFirstBytes) {
  const std::string nothing(3, '\0');
  const std::string jpeg = std::string("\xff\xd8\xff\xe0\x00\x04..", 8) +
                           std::string("\xff\xc2\x00\x11\x08\x0b\xb8\x0f\xa0\x03", 10) +
                           std::string(9, 'x') + "and so on";
  const std::vector<std::string> files = {jpeg, "no image", nothing};
  AcceptedInput input{.kind = InputKind::kImage, .images = 3};
  for (const std::string& file : files) input.files.push_back(ScatteredBytes::Copy(file));
  const ImagesToDecode images(input, {});
  ASSERT_EQ(images.work.size(), 3u);
  EXPECT_EQ(images.work[0].kind, ImageKind::kProgressiveJpeg);
  EXPECT_EQ(images.work[0].amount, 12'000'000);
  EXPECT_EQ(images.work[0].halvings, 0);
  EXPECT_EQ(images.work[1].kind, ImageKind::kUnknown);
  EXPECT_EQ(images.work[1].amount, 8);
  EXPECT_EQ(images.work[2].kind, ImageKind::kUnknown);
  // 4000 x 3000, of which the model sees 256 rows.
  const ImagesToDecode fast(input, {.fast_decode = true});
  EXPECT_EQ(fast.work[0].halvings, 2);
  EXPECT_EQ(fast.work[0].amount, 12'000'000);
  EXPECT_EQ(fast.work[1].halvings, 0);
}

}  // namespace
}  // namespace fovea
