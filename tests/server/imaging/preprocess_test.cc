#include "server/imaging/preprocess.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "server/core/testing/fake_clock.h"
#include "server/imaging/imaging_pool.h"
#include "server/imaging/probe.h"
#include "server/imaging/resample.h"
#include "tests/server/imaging/image_files.h"

namespace fovea {
namespace {

using testing::File;
using testing::ReadImage;

// Moves on by a millisecond at every look.
class TickingClock final : public Clock {
 public:
  Nanos Now() const override { return now_ += kMillisecond; }
  void WaitUntil(CondVar&, Mutex&, Nanos) override {}

 private:
  mutable Nanos now_ = 0;
};

// The bytes of `file`, which outlives it, as they come from a socket.
template <typename Byte>
ScatteredBytes Received(const std::vector<Byte>& file) {
  return ScatteredBytes(std::as_bytes(std::span(file)), nullptr);
}
ScatteredBytes InTwoPieces(const File& file) {
  const auto bytes = std::as_bytes(std::span(file));
  const size_t half = file.size() / 2;
  return ScatteredBytes({bytes.first(half), bytes.subspan(half)}, nullptr);
}

constexpr int64_t kBudget = 4 << 20;
const PreprocessSpec kSmall{.sizes = {{16, 16}}};

class Preprocess : public ::testing::Test {
 protected:
  absl::Status Run(const File& file, const PreprocessSpec& spec = kSmall) {
    absl::StatusOr<ResizedImage> image =
        DecodeAndResize(Received(file), spec, options_, resources_, &durations_);
    FOVEA_RETURN_IF_ERROR(image.status());
    out_ = std::move(image->rgb);
    transform_ = image->transform;
    return absl::OkStatus();
  }

  TickingClock clock_;
  TickingClock budget_clock_;  // it reads a clock too, which does not count here
  MemoryBudget budget_{kBudget, budget_clock_};
  const ImagingResources resources_{.budget = budget_, .clock = clock_};
  ImagingOptions options_;
  ImageTransform transform_;
  ImageDurations durations_;
  std::vector<uint8_t> out_;
};

TEST_F(Preprocess, AFileBecomesTheModelsPixels) {
  ASSERT_TRUE(Run(ReadImage("orientation_6.png")).ok());
  const std::vector<uint8_t> upright = testing::ReadPixels("orientation_6.png");
  std::vector<uint8_t> expected(out_.size());
  ResampleReference(upright.data(), 23, 29, SourceBox::Whole(23, 29), PlanResize(23, 29, kSmall),
                    kSmall.interpolation, expected.data());
  EXPECT_EQ(out_, expected);
  EXPECT_EQ(budget_.held(), 0);
}

// A box that a model finds lies where the caller's picture has it.
TEST_F(Preprocess, TellsHowTheModelSeesTheImage) {
  ASSERT_TRUE(Run(ReadImage("orientation_6.png")).ok());
  EXPECT_EQ(transform_.source_height, 23) << "upright";
  EXPECT_EQ(transform_.source_width, 29);
  // A white square on black: where it begins and ends in the model's pixels, it does in the source.
  constexpr int kHeight = 200, kWidth = 400, kTop = 60, kLeft = 180, kSide = 50;
  std::vector<uint8_t> picture(3 * kHeight * kWidth);
  for (int y = kTop; y < kTop + kSide; ++y) {
    std::fill_n(picture.begin() + 3 * (y * kWidth + kLeft), 3 * kSide, 255);
  }
  const PreprocessSpec spec{.sizes = {{96, 80}}, .crop_fraction = 0.9};
  const absl::StatusOr<ResizedImage> image =
      ResizeRgb(Received(picture), kHeight, kWidth, spec, {}, resources_);
  ASSERT_TRUE(image.ok()) << image.status();
  const ImageTransform& transform = image->transform;
  EXPECT_EQ(transform.height, 96);
  EXPECT_EQ(transform.width, 80);
  const auto white = [&](int64_t y, int64_t x) {
    return image->rgb[3 * (y * transform.width + x)] > 127;
  };
  int64_t top = transform.height, bottom = 0, left = transform.width, right = 0;
  for (int64_t y = 0; y < transform.height; ++y) {
    for (int64_t x = 0; x < transform.width; ++x) {
      if (!white(y, x)) continue;
      top = std::min(top, y);
      bottom = std::max(bottom, y + 1);
      left = std::min(left, x);
      right = std::max(right, x + 1);
    }
  }
  const double pixel = static_cast<double>(kHeight) / static_cast<double>(transform.resized_height);
  EXPECT_NEAR(transform.SourceY(static_cast<double>(top)), kTop, pixel);
  EXPECT_NEAR(transform.SourceY(static_cast<double>(bottom)), kTop + kSide, pixel);
  EXPECT_NEAR(transform.SourceX(static_cast<double>(left)), kLeft, pixel);
  EXPECT_NEAR(transform.SourceX(static_cast<double>(right)), kLeft + kSide, pixel);
}

// Red grows from left to right, green from top to bottom: a pixel says where it is.
RgbImage Ramps(int height, int width) {
  RgbImage image = RgbImage::Allocate(height, width);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      uint8_t* pixel = image.pixels.get() + 3 * (y * width + x);
      pixel[0] = static_cast<uint8_t>(255 * x / (width - 1));
      pixel[1] = static_cast<uint8_t>(255 * y / (height - 1));
      pixel[2] = 128;
    }
  }
  return image;
}

int LargestDifference(const std::vector<uint8_t>& left, const std::vector<uint8_t>& right) {
  EXPECT_EQ(left.size(), right.size());
  int largest = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(int{left[i]} - int{right[i]}));
  }
  return largest;
}

// An inverse transform of fewer terms leaves a ramp a ramp, and so does the filter after it. In
// both ways values are rounded three times (transform, rows, columns), to half a level each. And
// the last block goes on flat where the file ends: its pixels are 4 wrong on average, of 255 / 203
// levels each, and the last output takes less than a fifth of them.
constexpr int kRampBound = 3 + 1;

TEST_F(Preprocess, FastDecodeSeesTheSamePictureHoweverTheCameraWasHeld) {
  // The last blocks are padded by 5 and 7 pixels: more levels than the bound, were these seen as a
  // part of the picture, or looked for at its other end. An eighth is 26 x 39; the model has 12.
  constexpr int kHeight = 203, kWidth = 305;
  const RgbImage picture = Ramps(kHeight, kWidth);
  PreprocessSpec spec{.sizes = {{12, 12}}, .crop_fraction = 1};
  for (const ResizeMode mode : {ResizeMode::kShortestEdge, ResizeMode::kSquash, ResizeMode::kFit}) {
    spec.resize_mode = mode;
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const File file = testing::TurnedJpeg(picture, orientation);
      spec.fast_decode = false;
      ASSERT_TRUE(Run(file, spec).ok());
      const std::vector<uint8_t> exact = out_;
      const ImageTransform transform = transform_;
      spec.fast_decode = true;
      ASSERT_TRUE(Run(file, spec).ok());
      EXPECT_LE(LargestDifference(out_, exact), kRampBound) << orientation;
      EXPECT_NE(out_, exact) << "it was decoded whole";
      // Boxes are taken back to the caller's picture, not to what was decoded.
      EXPECT_EQ(transform_, transform) << orientation;
      EXPECT_EQ(transform_.source_height, kHeight);
      EXPECT_EQ(transform_.source_width, kWidth);
    }
  }
}

TEST_F(Preprocess, FastDecodeLeavesSmallPicturesAndOtherFormatsAlone) {
  PreprocessSpec spec{.sizes = {{80, 80}}, .crop_fraction = 1};
  const File jpeg = testing::TurnedJpeg(Ramps(319, 500), 6);  // 4 * 80 would be halved
  for (const File& file : {jpeg, ReadImage("rgb_8.png"), ReadImage("lossless.webp")}) {
    spec.fast_decode = false;
    ASSERT_TRUE(Run(file, spec).ok());
    const std::vector<uint8_t> exact = out_;
    spec.fast_decode = true;
    ASSERT_TRUE(Run(file, spec).ok());
    EXPECT_EQ(out_, exact);
  }
}

TEST_F(Preprocess, FastDecodeTakesTheMemoryOfWhatIsDecodedUnderTheLimitsOfTheFile) {
  const File file = testing::TurnedJpeg(Ramps(1600, 2400), 1);
  PreprocessSpec spec = kSmall;
  EXPECT_EQ(ReasonOf(Run(file, spec)), "image.too_large_to_decode");
  spec.fast_decode = true;
  EXPECT_TRUE(Run(file, spec).ok());
  EXPECT_EQ(budget_.held(), 0);
  options_.limits.max_pixels = 1600 * 2400 - 1;
  EXPECT_EQ(ReasonOf(Run(file, spec)), "image.too_many_pixels");
}

TEST_F(Preprocess, FastDecodeFindsDamageToo) {
  const File whole = testing::TurnedJpeg(Ramps(203, 309), 1);
  PreprocessSpec spec = kSmall;
  spec.sizes = {{12, 12}};
  spec.fast_decode = true;
  File file = whole;
  file.resize(file.size() - 20);
  EXPECT_EQ(ReasonOf(Run(file, spec)), "image.truncated");
  // A header that promises more rows than there are.
  file = whole;
  const auto frame = std::ranges::search(file, File{std::byte(0xff), std::byte(0xc0)}).begin();
  frame[5] = std::byte(4);
  EXPECT_EQ(ReasonOf(Run(file, spec)), "image.corrupt");
  EXPECT_EQ(budget_.held(), 0);
}

TEST_F(Preprocess, DecodingAndResizingAreTimedApart) {
  ASSERT_TRUE(Run(ReadImage("rgb_8.png")).ok());
  EXPECT_EQ(durations_.decode, kMillisecond);
  EXPECT_EQ(durations_.preprocess, kMillisecond);
  ASSERT_FALSE(Run(File(100)).ok());
  EXPECT_EQ(durations_.decode, kMillisecond);
  EXPECT_EQ(durations_.preprocess, 0);
}

TEST_F(Preprocess, AFailureGivesItsMemoryBack) {
  File file = ReadImage("baseline.jpg");
  file.resize(file.size() - 20);
  EXPECT_EQ(ReasonOf(Run(file)), "image.truncated");
  file = ReadImage("rgb_8.png");
  file[80] ^= std::byte(1);
  EXPECT_EQ(ReasonOf(Run(file)), "image.corrupt");
  EXPECT_EQ(budget_.held(), 0);
}

// Nothing that fits alone fails because others are decoded now: it waits for its turn.
TEST_F(Preprocess, Row39WaitsForMemoryThatIsInUseElsewhere) {
  const File file = ReadImage("baseline.jpg");
  FakeClock clock;
  MemoryBudget budget(1 << 20, clock);
  std::optional<MemoryBudget::Hold> most = budget.TryHold((1 << 20) - 1000);
  absl::StatusOr<ResizedImage> first, second;
  const ImagingResources resources{.budget = budget, .clock = clock};
  std::thread whole([&] { first = DecodeAndResize(Received(file), kSmall, options_, resources); });
  clock.AwaitWaiters(1);
  std::thread pieces([&] {  // this one has to be gathered first, which does not fit either
    second = DecodeAndResize(InTwoPieces(file), kSmall, options_, resources);
  });
  clock.AwaitWaiters(2);
  most.reset();
  whole.join();
  pieces.join();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->rgb, second->rgb);
  EXPECT_EQ(budget.held(), 0);
}

// Two that kept their gathered bytes while they wait to decode would wait for each other.
TEST_F(Preprocess, Row39WhoWaitsToDecodeHoldsNothing) {
  const File file = ReadImage("baseline.jpg");
  const auto gathered = static_cast<int64_t>(file.size());
  const absl::StatusOr<ImageInfo> info = ProbeImage(std::as_bytes(std::span(file)), {});
  ASSERT_TRUE(info.ok()) << info.status();
  FakeClock clock;
  // For one file being decoded and the gathered bytes of another, never for two being decoded.
  const int64_t capacity = gathered + info->decode_bytes + gathered - 1;
  MemoryBudget budget(capacity, clock);
  std::optional<MemoryBudget::Hold> other = budget.TryHold(capacity - 2 * gathered);
  const ImagingResources resources{.budget = budget, .clock = clock};
  absl::StatusOr<ResizedImage> first, second;
  std::thread decodes(
      [&] { first = DecodeAndResize(InTwoPieces(file), kSmall, options_, resources); });
  clock.AwaitWaiters(1);
  EXPECT_EQ(budget.held(), other->bytes());
  std::thread gathers(
      [&] { second = DecodeAndResize(InTwoPieces(file), kSmall, options_, resources); });
  clock.AwaitWaiters(2);
  other.reset();
  decodes.join();
  gathers.join();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(budget.held(), 0);
}

TEST_F(Preprocess, Row39GivesUpWaitingAtTheDeadline) {
  const std::optional<MemoryBudget::Hold> most = budget_.TryHold(kBudget - 1000);
  const File file = ReadImage("baseline.jpg");
  const absl::Status status =
      DecodeAndResize(Received(file), kSmall, options_,
                      {.budget = budget_, .clock = clock_, .until = 1'000 * kMillisecond})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(status), "queue.expired");
}

TEST_F(Preprocess, AnImageWhoseCallerIsGoneWaitsForNoMemory) {
  const File file = ReadImage("baseline.jpg");
  FakeClock clock;
  MemoryBudget budget(kBudget, clock);
  const std::optional<MemoryBudget::Hold> all = budget.TryHold(kBudget);
  const auto cancellation = std::make_shared<Cancellation>();
  absl::Status status;
  std::thread decodes([&] {
    status = DecodeAndResize(Received(file), kSmall, options_,
                             {.budget = budget, .clock = clock, .cancellation = cancellation})
                 .status();
  });
  clock.AwaitWaiters(1);
  cancellation->Cancel();
  decodes.join();
  EXPECT_EQ(ReasonOf(status), "queue.cancelled");
  EXPECT_EQ(budget.held(), kBudget) << "nothing was given back meanwhile";
}

TEST_F(Preprocess, WaitingForMemoryIsNotTakenForDecoding) {
  const File file = ReadImage("baseline.jpg");
  FakeClock clock;
  MemoryBudget budget(kBudget, clock);
  std::optional<MemoryBudget::Hold> all = budget.TryHold(kBudget);
  std::thread decodes([&] {
    EXPECT_TRUE(DecodeAndResize(Received(file), kSmall, options_,
                                {.budget = budget, .clock = clock}, &durations_)
                    .ok());
  });
  clock.AwaitWaiters(1);
  clock.Advance(300 * kMillisecond);
  all.reset();
  decodes.join();
  EXPECT_EQ(durations_.wait, 300 * kMillisecond);
  EXPECT_EQ(durations_.decode + durations_.preprocess, 0) << "the clock stood still";
}

TEST_F(Preprocess, Row116WhatNeverFitsIsNotCalledRetryableAndNamesTheFlag) {
  MemoryBudget small(1'000, clock_);
  const File file = ReadImage("baseline.jpg");
  const absl::Status status =
      DecodeAndResize(Received(file), kSmall, options_, {.budget = small, .clock = clock_})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), "image.too_large_to_decode");
  EXPECT_NE(status.message().find("--imaging-memory"), std::string::npos);
  EXPECT_EQ(small.held(), 0);
}

TEST_F(Preprocess, Row24OnePixelAndOneRowAreEnlarged) {
  ASSERT_TRUE(Run(ReadImage("tiny.webp")).ok());
  for (size_t i = 0; i < out_.size(); i += 3) {
    EXPECT_EQ(out_[i], 10);
    EXPECT_EQ(out_[i + 1], 200);
    EXPECT_EQ(out_[i + 2], 30);
  }
  // 1 x 1000 and 1000 x 1: resized as a whole they would have 18,000 times 18 pixels.
  std::vector<uint8_t> ramp(3000);
  for (int i = 0; i < 3000; ++i) ramp[i] = static_cast<uint8_t>(i / 12);
  const auto landscape = ResizeRgb(Received(ramp), 1, 1000, kSmall, {}, resources_);
  const auto portrait = ResizeRgb(Received(ramp), 1000, 1, kSmall, {}, resources_);
  ASSERT_TRUE(landscape.ok() && portrait.ok());
  const std::vector<uint8_t>&wide = landscape->rgb, &tall = portrait->rgb;
  EXPECT_NEAR(wide[3 * 8], 125, 1);
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 16; ++x) EXPECT_EQ(wide[3 * (16 * y + x)], tall[3 * (16 * x + y)]);
  }
}

TEST_F(Preprocess, PixelsOfTheModelsSizeAreCopied) {
  std::vector<uint8_t> rgb(3 * 16 * 16);
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(i * 37);
  PreprocessSpec spec = kSmall;
  spec.crop_fraction = 1.0;
  for (const ResizeMode mode : {ResizeMode::kShortestEdge, ResizeMode::kSquash, ResizeMode::kFit}) {
    spec.resize_mode = mode;
    const auto image = ResizeRgb(Received(rgb), 16, 16, spec, {}, resources_);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->rgb, rgb);
  }
}

TEST_F(Preprocess, PixelsMustFillTheirShapeAndKeepTheLimits) {
  std::vector<uint8_t> rgb(300);
  const auto resize = [&](const ScatteredBytes& pixels, int64_t height, int64_t width) {
    return ResizeRgb(pixels, height, width, kSmall, {}, resources_).status();
  };
  EXPECT_TRUE(resize(Received(rgb), 10, 10).ok());
  EXPECT_EQ(ReasonOf(resize(Received(rgb), 10, 11)), "image.bad_size");
  EXPECT_EQ(ReasonOf(resize({}, 1'000'000'000'000, 1'000'000'000'000)), "image.too_many_pixels");
  EXPECT_EQ(ReasonOf(resize({}, 10'001, 10'000)), "image.too_many_pixels");
  EXPECT_FALSE(resize({}, 0, 10).ok());
  EXPECT_FALSE(resize({}, -1, -1).ok());
}

// Row 43's half that imaging decides, and promise 8: images share threads and decoders, and nothing
// else.
TEST_F(Preprocess, Row43ABadImageAmongGoodOnesChangesNoneOfThem) {
  MemoryBudget budget(int64_t{1} << 30, SteadyClock());
  const ImagingResources resources{.budget = budget, .clock = SteadyClock()};
  const std::vector<std::string> names = testing::ImageNames();
  const auto cut = [](const std::string& name) {
    File file = ReadImage(name);
    file.resize(file.size() * 3 / 4);
    return file;
  };
  std::vector<std::vector<uint8_t>> alone;
  std::vector<absl::Status> bad_alone;  // the first picture of several may be whole
  for (const std::string& name : names) {
    const File file = ReadImage(name);
    auto image = DecodeAndResize(Received(file), kSmall, options_, resources);
    ASSERT_TRUE(image.ok()) << name << ": " << image.status();
    alone.push_back(std::move(image->rgb));
    const File bad = cut(name);
    bad_alone.push_back(DecodeAndResize(Received(bad), kSmall, options_, resources).status());
  }
  EXPECT_GT(std::ranges::count(bad_alone, "image.truncated", ReasonOf), std::ssize(names) / 2);
  constexpr size_t kRounds = 20;
  std::vector<std::vector<uint8_t>> together(kRounds * names.size());
  std::vector<absl::Status> bad(kRounds * names.size());
  {
    absl::StatusOr<std::unique_ptr<ImagingPool>> pool =
        ImagingPool::Create({.threads = 4, .max_queued = 100'000}, SteadyClock());
    ASSERT_TRUE(pool.ok());
    const auto line = (*pool)->AddLine();
    const auto submit = [&](auto work) {
      ASSERT_TRUE(line->Submit({.run = [work](const absl::Status&) { return work(); }}).ok());
    };
    for (size_t i = 0; i < together.size(); ++i) {
      const std::string& name = names[i % names.size()];
      submit([&, i, name] {
        const File file = ReadImage(name);
        auto image = DecodeAndResize(Received(file), kSmall, options_, resources);
        if (image.ok()) together[i] = std::move(image->rgb);
        return image.ok();
      });
      submit([&, i, name] {
        const File file = cut(name);
        bad[i] = DecodeAndResize(Received(file), kSmall, options_, resources).status();
        return bad[i].ok();
      });
    }
    while ((*pool)->queued() > 0) std::this_thread::yield();
  }
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(together[i], alone[i % names.size()]) << names[i % names.size()];
    EXPECT_EQ(bad[i], bad_alone[i % names.size()]) << names[i % names.size()];
  }
  EXPECT_EQ(budget.held(), 0);
}

}  // namespace
}  // namespace fovea
