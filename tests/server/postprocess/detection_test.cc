#include "server/postprocess/detection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/run_lengths.h"
#include "base/status.h"
#include "server/imaging/decode.h"
#include "server/imaging/probe.h"
#include "server/postprocess/instance_mask.h"

namespace fovea {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int kMost = 3;

std::shared_ptr<ModelView> Model() {
  auto model = std::make_shared<ModelView>();
  model->task = VisionTask::kDetection;
  model->num_classes = 4;
  model->longest_label = 3;
  model->labels =
      std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"cat", "dog", "1"});
  model->outputs = {{"boxes", DataType::kFp32, {-1, kMost, 4}},
                    {"scores", DataType::kFp32, {-1, kMost}},
                    {"labels", DataType::kInt64, {-1, kMost}},
                    {"counts", DataType::kInt64, {-1}}};
  return model;
}

template <typename Number>
OutputTensor Tensor(std::string name, DataType type, std::vector<int64_t> shape,
                    const std::vector<Number>& numbers) {
  std::string data(numbers.size() * sizeof(Number), '\0');
  std::memcpy(data.data(), numbers.data(), data.size());
  return {std::move(name), type, std::move(shape), std::move(data)};
}

// Two images: three objects, and none.
std::vector<OutputTensor> Found() {
  std::vector<float> boxes = {0, 0, 10, 20, 5, 10, 15, 20, 2, 2, 400, 400};
  boxes.resize(2 * kMost * 4);
  return {
      Tensor<float>("boxes", DataType::kFp32, {2, kMost, 4}, boxes),
      Tensor<float>("scores", DataType::kFp32, {2, kMost}, {0.75f, 0.5f, 0.25f, 0, 0, 0}),
      Tensor<int64_t>("labels", DataType::kInt64, {2, kMost}, {1, 3, 2, 0, 0, 0}),
      Tensor<int64_t>("counts", DataType::kInt64, {2}, {3, 0}),
  };
}

// Half as large as the caller's picture of 80 x 60, and one of 20 x 30 as it is.
std::vector<ImageTransform> Seen() {
  ImageTransform half = ImageTransform::Identity(40, 30);
  half.source_height = 80;
  half.source_width = 60;
  return {half, ImageTransform::Identity(20, 30)};
}

DetectResults Detect(const DetectOptions& options) {
  const auto postprocessor = Postprocessor::Create(Model());
  EXPECT_TRUE(postprocessor->Check(options).ok()) << postprocessor->Check(options);
  auto results = postprocessor->Process(options, Found(), Seen());
  EXPECT_TRUE(results.ok()) << results.status();
  return std::get<DetectResults>(*std::move(results));
}

std::vector<int> ClassesOf(const DetectOptions& options) {
  std::vector<int> classes;
  const DetectResults results = Detect(options);
  for (const Detection& one : results[0].detections) classes.push_back(one.class_index);
  return classes;
}

TEST(DetectionTest, BoxesLieInTheCallersPicture) {
  const DetectResults results = Detect({});
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_EQ(results[0].image, (ImageSize{80, 60}));
  ASSERT_THAT(results[0].detections, SizeIs(3));
  EXPECT_EQ(results[0].detections[0].box, (Box{0, 0, 20, 40}));
  EXPECT_EQ(results[0].detections[1].box, (Box{10, 20, 30, 40}));
  EXPECT_EQ(results[0].detections[2].box, (Box{4, 4, 60, 80})) << "not beyond its edges";
  EXPECT_EQ(results[0].detections[0].label, "dog");
  EXPECT_EQ(results[0].detections[1].label, "") << "the model has three labels";
  EXPECT_FLOAT_EQ(results[0].detections[1].score, 0.5f);
  EXPECT_EQ(results[1].image, (ImageSize{20, 30}));
  EXPECT_THAT(results[1].detections, SizeIs(0)) << "none found is no error";
}

TEST(DetectionTest, ScoreNumberAndClassesLeaveOut) {
  EXPECT_THAT(ClassesOf({}), ElementsAre(1, 3, 2));
  EXPECT_THAT(ClassesOf({.score_threshold = 0.5f}), ElementsAre(1, 3));
  EXPECT_THAT(ClassesOf({.max_detections = 1}), ElementsAre(1));
  EXPECT_THAT(ClassesOf({.max_detections = 1000}), ElementsAre(1, 3, 2));
  EXPECT_THAT(ClassesOf({.classes = {"dog"}}), ElementsAre(1));
  EXPECT_THAT(ClassesOf({.classes = {"3", "dog"}}), ElementsAre(1, 3));
  EXPECT_THAT(ClassesOf({.classes = {"1"}}), ElementsAre(2)) << "a label comes before a number";
  EXPECT_THAT(ClassesOf({.max_detections = 1, .classes = {"3"}}), ElementsAre(3))
      << "those that are left out do not count";
}

// docs/faults.md, row 55.
TEST(DetectionTest, UnknownClassesAreRefused) {
  const auto postprocessor = Postprocessor::Create(Model());
  for (const char* name : {"hen", "4", "-1", "", "99999999999999999999"}) {
    const absl::Status status = postprocessor->Check(DetectOptions{.classes = {name}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(ReasonOf(status), "request.class_unknown");
  }
  EXPECT_THAT(std::string(postprocessor->Check(DetectOptions{.classes = {"he\n"}}).message()),
              testing::Not(HasSubstr("\n")));
}

TEST(DetectionTest, Row55MoreClassesThanTheModelCanBeAskedForAreRefused) {
  // Four classes, each by a label or by its number.
  const std::vector<std::string> all(8, "dog");
  EXPECT_THAT(ClassesOf({.classes = all}), ElementsAre(1));
  const auto postprocessor = Postprocessor::Create(Model());
  DetectOptions more{.classes = all};
  more.classes.push_back("dog");
  const absl::Status status = postprocessor->Check(more);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), "request.too_many_classes");
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 8 names"));
  // Before any of them is looked up.
  more.classes.front() = "hen";
  EXPECT_EQ(ReasonOf(postprocessor->Check(more)), "request.too_many_classes");
}

TEST(DetectionTest, OfEqualLabelsTheFirstClassIsMeant) {
  const auto model = Model();
  model->labels = std::make_shared<const std::vector<std::string>>(
      std::vector<std::string>{"cat", "dog", "dog"});
  const auto postprocessor = Postprocessor::Create(model);
  const auto results = postprocessor->Process(DetectOptions{.classes = {"dog"}}, Found(), Seen());
  ASSERT_TRUE(results.ok()) << results.status();
  const auto& detections = std::get<DetectResults>(*results)[0].detections;
  ASSERT_THAT(detections, SizeIs(1));
  EXPECT_EQ(detections[0].class_index, 1);
}

TEST(DetectionTest, TensorsTellBoxesInTheCallersPictureToo) {
  const auto postprocessor = Postprocessor::Create(Model());
  const auto results = postprocessor->Process(WantedTensors(), Found(), Seen());
  ASSERT_TRUE(results.ok()) << results.status();
  const auto& outputs = std::get<TensorResults>(*results);
  ASSERT_THAT(outputs, SizeIs(4));
  float boxes[2 * kMost * 4];
  ASSERT_EQ(outputs[0].data.size(), sizeof(boxes));
  std::memcpy(boxes, outputs[0].data.data(), sizeof(boxes));
  EXPECT_THAT(std::vector<float>(boxes, boxes + 12),
              ElementsAre(0, 0, 20, 40, 10, 20, 30, 40, 4, 4, 60, 80));
  EXPECT_THAT(std::vector<float>(boxes + 12, boxes + 24), testing::Each(0));
  EXPECT_EQ(outputs[1].data, Found()[1].data);
}

// docs/faults.md, row 56.
TEST(DetectionTest, NeedsADetector) {
  for (size_t missing = 0; missing < 4; ++missing) {
    auto model = Model();
    model->outputs.erase(model->outputs.begin() + static_cast<int64_t>(missing));
    const absl::Status status = Postprocessor::Create(model)->Check(DetectOptions());
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(status), "model.no_detector");
  }
  auto classifier = Model();
  classifier->task = VisionTask::kClassification;
  const absl::Status status = Postprocessor::Create(classifier)->Check(DetectOptions());
  EXPECT_EQ(ReasonOf(status), "model.no_detector");
  EXPECT_EQ(status.message(), "the model's task is classification: it gives no detections");
}

// As Model and Found, with masks of 2 x 2 places: all of the first, the right half of the second,
// nothing of the third.
std::shared_ptr<ModelView> MaskModel(MaskPasting pasting) {
  auto model = Model();
  model->outputs.push_back({"masks", DataType::kFp32, {-1, kMost, 2, 2}});
  model->mask_pasting = pasting;
  return model;
}

absl::StatusOr<DetectResults> DetectMasks(MaskPasting pasting, MaskFormat format,
                                          const std::vector<float>& masks = {1, 1, 1, 1, 0, 1, 0, 1,
                                                                             0, 0, 0, 0}) {
  std::vector<OutputTensor> outputs = Found();
  std::vector<float> all = masks;
  all.resize(2 * kMost * 4);
  outputs.push_back(Tensor<float>("masks", DataType::kFp32, {2, kMost, 2, 2}, all));
  const auto postprocessor = Postprocessor::Create(MaskModel(pasting));
  const DetectOptions options{.classes = {}, .masks = format};
  EXPECT_TRUE(postprocessor->Check(options).ok());
  auto results = postprocessor->Process(options, std::move(outputs), Seen());
  if (!results.ok()) return results.status();
  return std::get<DetectResults>(*std::move(results));
}

// By its definition: pixel by pixel, between the middles of the places, zero beyond the box.
std::vector<uint8_t> PixelByPixel(const Box& box, const std::vector<float>& places,
                                  const ImageSize& image) {
  std::vector<uint8_t> map;
  for (int x = 0; x < image.width; ++x) {  // by columns
    for (int y = 0; y < image.height; ++y) {
      const double across = (x + 0.5 - box.left) / (box.right - box.left) * 2 - 0.5;
      const double down = (y + 0.5 - box.top) / (box.bottom - box.top) * 2 - 0.5;
      double probability = 0;
      for (int row = 0; row < 2; ++row) {
        for (int column = 0; column < 2; ++column) {
          probability += places[2 * row + column] * std::max(0.0, 1 - std::abs(across - column)) *
                         std::max(0.0, 1 - std::abs(down - row));
        }
      }
      map.push_back(probability >= 0.5);
    }
  }
  return map;
}

std::string RunLengthsOfColumns(const std::vector<uint8_t>& map) {
  RunLengths runs;
  for (const uint8_t pixel : map) runs.Add(pixel != 0, 1);
  return runs.Text();
}

TEST(DetectionTest, MasksLieInTheCallersPicture) {
  const auto results = DetectMasks(MaskPasting::kMmdetection, MaskFormat::kRunLengths);
  ASSERT_TRUE(results.ok()) << results.status();
  const std::vector<Detection>& found = (*results)[0].detections;
  ASSERT_THAT(found, SizeIs(3));
  const ImageSize image{80, 60};
  const std::vector<uint8_t> all = PixelByPixel(found[0].box, {1, 1, 1, 1}, image);
  EXPECT_EQ(found[0].mask->run_lengths, RunLengthsOfColumns(all));
  EXPECT_EQ(found[0].mask->pixels, std::ranges::count(all, 1));
  EXPECT_NEAR(static_cast<double>(found[0].mask->pixels), 20 * 40, 100) << "but for its corners";
  EXPECT_EQ(found[0].mask->png, "");
  const std::vector<uint8_t> right_half = PixelByPixel(found[1].box, {0, 1, 0, 1}, image);
  EXPECT_EQ(found[1].mask->run_lengths, RunLengthsOfColumns(right_half));
  EXPECT_EQ(found[1].mask->pixels, std::ranges::count(right_half, 1));
  const std::vector<uint8_t> nothing(80 * 60);
  EXPECT_EQ(found[2].mask->run_lengths, RunLengthsOfColumns(nothing));
  EXPECT_EQ(found[2].mask->pixels, 0);
}

TEST(DetectionTest, MasksAsPicturesHaveTheirPlace) {
  const auto results = DetectMasks(MaskPasting::kMmdetection, MaskFormat::kPng);
  ASSERT_TRUE(results.ok()) << results.status();
  const std::vector<Detection>& found = (*results)[0].detections;
  const InstanceMask& right_half = *found[1].mask;
  EXPECT_EQ(right_half.run_lengths, "");
  const Bytes file = std::as_bytes(std::span(right_half.png));
  const auto png = DecodeImage(file, *ProbeImage(file, {}));
  ASSERT_TRUE(png.ok()) << png.status();
  const std::vector<uint8_t> map = PixelByPixel(found[1].box, {0, 1, 0, 1}, {80, 60});
  int64_t set = 0;
  for (int y = 0; y < png->height; ++y) {
    for (int x = 0; x < png->width; ++x) {
      const uint8_t level = png->pixels[3 * (y * png->width + x)];
      const int64_t at_x = x + right_half.left, at_y = y + right_half.top;
      EXPECT_EQ(level, map[at_x * 80 + at_y] != 0 ? 255 : 0) << at_x << ' ' << at_y;
      set += level == 255;
    }
  }
  EXPECT_EQ(set, right_half.pixels);
  EXPECT_EQ(set, std::ranges::count(map, 1)) << "none of it lies beyond the picture";
  EXPECT_EQ(found[2].mask->png, "") << "no pixel of it";
}

TEST(DetectionTest, TorchvisionsMasksBeginAtWholePixels) {
  const std::vector<float> full(4, 1);
  const Box box{1.6F, 1.6F, 5.6F, 5.6F};
  // Grown by a place on each side it goes from 0 (-0.4) until 7.6, rounded towards 0, and ends one
  // pixel later: eight pixels, two a place.
  const PastedMask whole = PasteMask(full, 2, box, {20, 20}, MaskPasting::kTorchvision);
  EXPECT_EQ(whole.left, 0);
  EXPECT_EQ(whole.top, 0);
  EXPECT_EQ(whole.width, 8);
  EXPECT_EQ(whole.height, 8);
  // From 2 until 6: at the corners the probability is 0.75 * 0.75.
  for (int x = 0; x < 8; ++x) {
    for (int y = 0; y < 8; ++y) {
      const bool inside = x >= 2 && x < 6 && y >= 2 && y < 6;
      EXPECT_EQ(whole.columns[x * 8 + y], inside ? 1 : 0) << x << ' ' << y;
    }
  }
  const PastedMask exact = PasteMask(full, 2, box, {20, 20}, MaskPasting::kMmdetection);
  EXPECT_NE(exact.pixels, whole.pixels);
}

// Torchvision's counts, of each box:
//   (paste_masks_in_image(torch.ones(1, 1, 2, 2), torch.tensor([box]), (20, 20)) >= 0.5).sum()
TEST(DetectionTest, Row59MasksOfEmptyBoxesAndOfNoBoxesHaveFewPixels) {
  const std::vector<float> full(4, 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<Box, int64_t> boxes[] = {
      {{20, 20, 20, 20}, 0}, {{0, 0, 0, 5}, 6}, {{nan, 0, 5, 5}, 0}};
  for (const MaskPasting pasting : {MaskPasting::kTorchvision, MaskPasting::kMmdetection}) {
    for (const auto& [box, torchvisions] : boxes) {
      const PastedMask mask = PasteMask(full, 2, box, {20, 20}, pasting);
      EXPECT_EQ(mask.pixels, pasting == MaskPasting::kTorchvision ? torchvisions : 0);
      EXPECT_LE(mask.left + mask.width, 20);
      EXPECT_LE(mask.top + mask.height, 20);
    }
  }
}

// docs/faults.md, row 60. Noise in a large picture: every second place differs from the one below
// it. 56 crossings a column, of a character at least, are more than 32 bytes for each pixel of the
// longest side.
TEST(DetectionTest, MasksWhoseOutlineHasNoEndAreRefused) {
  constexpr int kSide = 112;
  const std::vector<ImageTransform> picture = {ImageTransform::Identity(2000, 2000)};
  std::mt19937 random(7);
  std::vector<float> noise(kSide * kSide);
  for (float& place : noise) place = random() % 2 == 0 ? 0.0F : 1.0F;
  const auto detect = [&](const std::vector<float>& places, MaskFormat format) {
    auto model = Model();
    model->outputs = {{"boxes", DataType::kFp32, {-1, 1, 4}},
                      {"scores", DataType::kFp32, {-1, 1}},
                      {"labels", DataType::kInt64, {-1, 1}},
                      {"counts", DataType::kInt64, {-1}},
                      {"masks", DataType::kFp32, {-1, 1, kSide, kSide}}};
    model->mask_pasting = MaskPasting::kMmdetection;
    std::vector<OutputTensor> outputs = {
        Tensor<float>("boxes", DataType::kFp32, {1, 1, 4}, {0, 0, 2000, 2000}),
        Tensor<float>("scores", DataType::kFp32, {1, 1}, {0.75F}),
        Tensor<int64_t>("labels", DataType::kInt64, {1, 1}, {1}),
        Tensor<int64_t>("counts", DataType::kInt64, {1}, {1}),
        Tensor<float>("masks", DataType::kFp32, {1, 1, kSide, kSide}, places)};
    return Postprocessor::Create(model)
        ->Process(DetectOptions{.classes = {}, .masks = format}, std::move(outputs), picture)
        .status();
  };
  const absl::Status refused = detect(noise, MaskFormat::kRunLengths);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(ReasonOf(refused), "request.masks_too_large");
  EXPECT_TRUE(detect(noise, MaskFormat::kNone).ok()) << "the object itself can be told";
  const std::vector<float> full(kSide * kSide, 1);
  EXPECT_TRUE(detect(full, MaskFormat::kRunLengths).ok()) << "and so can a plain mask";
}

// Whatever a head answers: reversed, without an area, beyond the picture.
TEST(DetectionTest, MasksOfAnyBoxLieInThePicture) {
  std::mt19937 random(5);
  const auto number = [&](float most) {
    return std::uniform_real_distribution<float>(-most, 2 * most)(random);
  };
  int64_t shown = 0;
  for (int i = 0; i < 3000; ++i) {
    const ImageSize picture{1 + static_cast<int64_t>(random() % 40),
                            1 + static_cast<int64_t>(random() % 40)};
    const auto most = static_cast<float>(random() % 3 == 0 ? 1 : 60);
    const Box box{number(most), number(most), number(most), number(most)};
    std::vector<float> places(28 * 28);
    for (float& place : places) place = random() % 2 == 0 ? 0.0F : 1.0F;
    for (const MaskPasting pasting : {MaskPasting::kTorchvision, MaskPasting::kMmdetection}) {
      const PastedMask mask = PasteMask(places, 28, box, picture, pasting);
      ASSERT_GE(mask.left, 0);
      ASSERT_GE(mask.top, 0);
      ASSERT_LE(mask.left + mask.width, picture.width);
      ASSERT_LE(mask.top + mask.height, picture.height);
      ASSERT_EQ(std::ssize(mask.columns), mask.width * mask.height);
      ASSERT_EQ(std::ranges::count(mask.columns, 1), mask.pixels);
      ASSERT_EQ(std::ranges::count(mask.columns, 0), std::ssize(mask.columns) - mask.pixels);
      shown += mask.pixels;
    }
  }
  EXPECT_GT(shown, 0);
}

// docs/faults.md, row 56.
TEST(DetectionTest, MasksAreOnlyForThoseWhoAskAndHaveThem) {
  const auto results = DetectMasks(MaskPasting::kTorchvision, MaskFormat::kNone);
  EXPECT_FALSE((*results)[0].detections[0].mask.has_value());
  const DetectOptions asked{.classes = {}, .masks = MaskFormat::kPng};
  const absl::Status refused = Postprocessor::Create(Model())->Check(asked);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), "model.no_masks");
  const auto masks = Postprocessor::Create(MaskModel(MaskPasting::kTorchvision));
  EXPECT_TRUE(masks->TakesLong(asked));
  EXPECT_FALSE(masks->TakesLong(DetectOptions()));
  EXPECT_FALSE(masks->TakesLong(WantedTensors()));
}

TEST(DetectionTest, CountsWhatMasksTake) {
  const auto postprocessor = Postprocessor::Create(MaskModel(MaskPasting::kTorchvision));
  const PictureBounds picture{.pixels = 80 * 60, .side = 80};
  const DetectOptions without, with{.classes = {}, .masks = MaskFormat::kRunLengths};
  const auto results = DetectMasks(MaskPasting::kTorchvision, MaskFormat::kRunLengths);
  int64_t told = 0;
  for (const Detection& one : (*results)[0].detections) told += std::ssize(one.mask->run_lengths);
  EXPECT_GT(told, 0);
  EXPECT_GE(
      postprocessor->ResultBytes(with, picture) - postprocessor->ResultBytes(without, picture),
      3 * told + 2 * picture.pixels);
}

// Somebody waits for the first so many masks.
TEST(DetectionTest, Row62PastesNoMaskThatNobodyWaitsFor) {
  const auto postprocessor = Postprocessor::Create(MaskModel(MaskPasting::kTorchvision));
  const DetectOptions options{.classes = {}, .masks = MaskFormat::kPng};
  for (const int pieces : {0, 1, 3}) {
    std::vector<OutputTensor> outputs = Found();
    outputs.push_back(Tensor<float>("masks", DataType::kFp32, {2, kMost, 2, 2},
                                    std::vector<float>(2 * kMost * 4, 1)));
    int asked = 0;
    const auto waits = [&] {
      return asked++ < pieces ? absl::OkStatus() : Cancelled("request.cancelled", "gone");
    };
    const auto results = postprocessor->Process(options, std::move(outputs), Seen(), waits);
    EXPECT_EQ(results.ok(), pieces == 3);
    EXPECT_EQ(asked, std::min(pieces + 1, 3)) << "once for each object";
    EXPECT_EQ(ReasonOf(results.status()), pieces == 3 ? "" : "request.cancelled");
  }
}

TEST(DetectionTest, CountsWhatDetectionsTake) {
  const auto postprocessor = Postprocessor::Create(Model());
  const int64_t one = postprocessor->ResultBytes(DetectOptions{.max_detections = 1}, {.pixels = 1});
  EXPECT_GE(one, static_cast<int64_t>(sizeof(Detection)) + 3 * 3);
  EXPECT_EQ(postprocessor->ResultBytes(DetectOptions(), {.pixels = 1}), kMost * one);
}

}  // namespace
}  // namespace fovea
