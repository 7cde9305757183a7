// Pictures that keep their shape, through the whole pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <future>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/imaging/encode_png.h"
#include "server/pipeline/served_model.h"
#include "server/pipeline/silent_observer.h"

namespace fovea {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A detector at 64x96, 96x64 and 64x64, whose boxes of random weights are many.
class PicturesTest : public testing::Test {
 protected:
  absl::Status Serve(const std::string& extra = "",
                     int64_t max_device_bytes = std::numeric_limits<int64_t>::max()) {
    VersionToLoad parsed{.name = "detector", .version = 1};
    FOVEA_ASSIGN_OR_RETURN(
        parsed.spec,
        ParseModelSpec("spec_version: 1 backbone: \"linglo_b0\" task: DETECTION num_classes: 3 "
                       "head { name: \"retinanet\" score_threshold: 0 detections_per_image: 20 } "
                       "image_height: 64 image_width: 96 "
                       "further_image_sizes { height: 96 width: 64 } "
                       "further_image_sizes { height: 64 width: 64 } "
                       "preprocessing { " +
                           sides_ +
                           " } "
                           "random_weights { seed: 1 } max_batch_size: 2 " +
                           extra,
                       "detector"));
    FOVEA_ASSIGN_OR_RETURN(
        auto created, ServedModel::Create(parsed, {.scheduler = *scheduler_,
                                                   .imaging = *imaging_,
                                                   .clock = SteadyClock(),
                                                   .observe =
                                                       [](const std::shared_ptr<const ModelView>&) {
                                                         return std::make_unique<SilentObserver>();
                                                       },
                                                   .device_threads = 2,
                                                   .drain_timeout_us = 10'000'000,
                                                   .max_device_bytes = max_device_bytes}));
    model_ = std::static_pointer_cast<ServedModel>(created);
    return absl::OkStatus();
  }

  using Answer = absl::StatusOr<InferenceResponse>;
  Answer Send(InputTensor input, RequestOptions options = DetectOptions(),
              CancellationPtr cancellation = std::make_shared<Cancellation>()) {
    auto request = std::make_unique<InferenceRequest>();
    request->input = NamedTensors{std::move(input)};
    request->options = std::move(options);
    request->cancellation = std::move(cancellation);
    request->stages = StageTimes(SteadyClock().Now());
    std::promise<Answer> promise;
    ServingModel::Infer(std::shared_ptr<const ServingModel>(std::shared_ptr<void>(), model_.get()),
                        std::move(request), [&](Answer answer, const StageTimes&) {
                          promise.set_value(std::move(answer));
                        });
    return promise.get_future().get();
  }

  // Noise; the same for the same seed.
  static std::string Noise(int64_t height, int64_t width, int seed) {
    std::mt19937 random(seed);
    std::string pixels(3 * height * width, '\0');
    for (char& value : pixels) value = static_cast<char>(random());
    return pixels;
  }
  static InputTensor Pictures(int64_t height, int64_t width, const std::string& pixels) {
    const auto images = static_cast<int64_t>(pixels.size()) / (3 * height * width);
    return {
        "image_rgb", DataType::kUint8, {images, height, width, 3}, ScatteredBytes::Copy(pixels)};
  }

  // As elements of a tensor.
  static ScatteredBytes Files(const std::vector<std::string>& files) {
    std::string elements;
    for (const std::string& file : files) {
      const auto size = static_cast<uint32_t>(file.size());
      elements.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(file);
    }
    return ScatteredBytes::Copy(elements);
  }

  static const DetectResults& Found(const Answer& answer) {
    return std::get<DetectResults>(answer->results);
  }
  // But for what a batch of another number of images rounds otherwise.
  static void ExpectSame(const ImageDetections& a, const ImageDetections& b) {
    ASSERT_EQ(a.detections.size(), b.detections.size());
    for (size_t i = 0; i < a.detections.size(); ++i) {
      const Box &one = a.detections[i].box, &other = b.detections[i].box;
      EXPECT_NEAR(one.left, other.left, 0.01) << i;
      EXPECT_NEAR(one.top, other.top, 0.01);
      EXPECT_NEAR(one.right, other.right, 0.01);
      EXPECT_NEAR(one.bottom, other.bottom, 0.01);
      EXPECT_NEAR(a.detections[i].score, b.detections[i].score, 1e-5);
      EXPECT_EQ(a.detections[i].class_index, b.detections[i].class_index);
    }
  }

  std::string sides_ = "shorter_side: 64 longer_side: 96";
  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::Create({.device_threads = 2}, SteadyClock());
  std::unique_ptr<ImagingPool> imaging_ = *ImagingPool::Create({.threads = 2}, SteadyClock());
  std::shared_ptr<ServedModel> model_;
};

TEST_F(PicturesTest, BoxesLieInsideOfEachPictureWhateverItsShape) {
  ASSERT_TRUE(Serve().ok());
  for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{
           {128, 192}, {192, 128}, {50, 50}, {1, 1}, {1, 200}, {300, 40}}) {
    const Answer answer = Send(Pictures(height, width, Noise(height, width, 1)));
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(Found(answer).size(), 1u);
    const ImageDetections& found = Found(answer)[0];
    EXPECT_EQ(found.image, (ImageSize{height, width}));
    EXPECT_EQ(found.detections.size(), 20u);
    for (const Detection& one : found.detections) {
      EXPECT_GE(one.box.left, 0);
      EXPECT_GE(one.box.top, 0);
      EXPECT_LE(one.box.left, one.box.right);
      EXPECT_LE(one.box.top, one.box.bottom);
      EXPECT_LE(one.box.right, static_cast<float>(width));
      EXPECT_LE(one.box.bottom, static_cast<float>(height));
    }
  }
}

TEST_F(PicturesTest, TheReceiptTellsTheWaste) {
  ASSERT_TRUE(Serve().ok());
  const auto padding = [&](int64_t height, int64_t width) {
    const Answer answer = Send(Pictures(height, width, Noise(height, width, 1)));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->receipt.padding : -1;
  };
  EXPECT_EQ(padding(64, 96), 0) << "as it is";
  EXPECT_EQ(padding(128, 192), 0);
  EXPECT_EQ(padding(30, 30), 0) << "64x64";
  EXPECT_DOUBLE_EQ(padding(64, 80), 1 - 80.0 / 96);
  EXPECT_DOUBLE_EQ(padding(100, 200), 1 - 48.0 / 64);
}

TEST_F(PicturesTest, PixelsOfOneOfTheSizesAreAnsweredAsTheirFile) {
  sides_ = "shorter_side: 48 longer_side: 72";  // less than the sizes hold
  ASSERT_TRUE(Serve().ok());
  for (const auto& [height, width] :
       std::vector<std::pair<int, int>>{{64, 96}, {96, 64}, {64, 64}}) {
    const std::string pixels = Noise(height, width, 1);
    const RgbImage image = RgbImage::Allocate(height, width);
    std::memcpy(image.pixels.get(), pixels.data(), pixels.size());
    const Answer raw = Send(Pictures(height, width, pixels));
    const Answer file = Send({"image", DataType::kBytes, {1, 1}, Files({*EncodePng(image)})});
    ASSERT_TRUE(raw.ok() && file.ok()) << raw.status() << file.status();
    EXPECT_EQ(Found(raw)[0].image, (ImageSize{height, width}));
    EXPECT_GT(raw->receipt.padding, 0) << "it is resized";
    EXPECT_EQ(raw->receipt.padding, file->receipt.padding);
    ExpectSame(Found(raw)[0], Found(file)[0]);
  }
}

TEST_F(PicturesTest, WhatIsFoundInAPictureDoesNotDependOnTheOthersOfItsRequest) {
  ASSERT_TRUE(Serve().ok());
  const std::string first = Noise(50, 70, 1), second = Noise(50, 70, 2), third = Noise(50, 70, 3);
  const Answer alone = Send(Pictures(50, 70, second));
  const Answer together = Send(Pictures(50, 70, first + second + third));
  ASSERT_TRUE(alone.ok() && together.ok()) << together.status();
  ASSERT_EQ(Found(together).size(), 3u) << "more than a batch holds";
  ExpectSame(Found(together)[1], Found(alone)[0]);
  EXPECT_NE(Found(together)[0].detections[0].box, Found(together)[1].detections[0].box);
}

TEST_F(PicturesTest, OneTensorForAllPicturesOfARequest) {
  ASSERT_TRUE(Serve().ok());
  const std::string first = Noise(90, 40, 1), second = Noise(90, 40, 2);
  const Answer answer = Send(Pictures(90, 40, first + second), WantedTensors());
  const Answer alone = Send(Pictures(90, 40, second), WantedTensors());
  ASSERT_TRUE(answer.ok() && alone.ok()) << answer.status();
  const auto& outputs = std::get<TensorResults>(answer->results);
  const auto& expected = std::get<TensorResults>(alone->results);
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_THAT(outputs[0].shape, ElementsAre(2, 20, 4));
  EXPECT_THAT(outputs[3].shape, ElementsAre(2));
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].name, expected[i].name);
    EXPECT_EQ(outputs[i].data.size(), expected[i].data.size());
    ASSERT_EQ(outputs[i].further.size(), 1u) << "the other picture's";
    EXPECT_EQ(outputs[i].further[0].size(), expected[i].data.size());
  }
  EXPECT_EQ(outputs[2].further[0], expected[2].data) << "labels";
}

TEST_F(PicturesTest, ABadPictureIsNamedAndFailsItsRequestAlone) {
  ASSERT_TRUE(Serve().ok());
  const Answer answer =
      Send({"image", DataType::kBytes, {2, 1}, Files({"no picture", "none either"})});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr(" of 2: "));
  EXPECT_TRUE(Send(Pictures(64, 64, Noise(64, 64, 1))).ok());
}

TEST_F(PicturesTest, ACancelledRequestEndsWithAllOfItsPictures) {
  ASSERT_TRUE(Serve().ok());
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  const std::string pictures = Noise(50, 70, 1) + Noise(50, 70, 2);
  const Answer answer = Send(Pictures(50, 70, pictures), DetectOptions(), cancellation);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled) << answer.status();
}

// docs/faults.md, row 57.
TEST_F(PicturesTest, ASizeThatHoldsTooMuchIsRefusedAndOthersServe) {
  ASSERT_TRUE(Serve().ok());
  const std::vector<int64_t>& bytes = model_->view()->device_bytes;
  ASSERT_EQ(bytes.size(), 3u);
  EXPECT_GT(bytes[0], bytes[2]);
  const int64_t between = bytes[2] + (bytes[0] - bytes[2]) / 2;
  model_.reset();
  ASSERT_TRUE(Serve("", between).ok());
  EXPECT_TRUE(Send(Pictures(40, 40, Noise(40, 40, 1))).ok());
  // A picture whose first bytes do not tell that it is square, behind 128 KiB of a comment.
  std::stringstream heart;
  heart << std::ifstream(FOVEA_SOURCE_DIR "/client/examples/heart.jpg", std::ios::binary).rdbuf();
  std::string comment("\xff\xfe\xff\xff", 4);
  comment.resize(2 + 65'535, ' ');
  const std::string file = heart.str().insert(2, comment + comment);
  const Answer square = Send({"image", DataType::kBytes, {1, 1}, Files({file})});
  EXPECT_TRUE(square.ok()) << square.status();
  const Answer large = Send(Pictures(40, 60, Noise(40, 60, 1)));
  EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(large.status()), "image.too_large_for_device");
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("64x96"));
}

}  // namespace
}  // namespace fovea
