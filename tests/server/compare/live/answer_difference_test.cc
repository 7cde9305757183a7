#include "server/compare/live/answer_difference.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/run_lengths.h"
#include "server/imaging/encode_png.h"

namespace fovea {
namespace {

template <typename Number>
OutputTensor Tensor(std::string name, DataType type, std::vector<int64_t> shape,
                    const std::vector<Number>& numbers) {
  std::string data(numbers.size() * sizeof(Number), '\0');
  std::memcpy(data.data(), numbers.data(), data.size());
  return {std::move(name), type, std::move(shape), std::move(data)};
}

// Whether the two differ; none: they cannot be compared.
std::optional<bool> Compared(const Results& a, const Results& b, VisionTask task) {
  const auto ours = TakeComparable(a, task), theirs = TakeComparable(b, task);
  if (!ours || !theirs) return std::nullopt;
  return Differ(*ours, *theirs);
}

TEST(AnswerDifference, ClassifiersDifferInTheirFirstClass) {
  const auto answer = [](int first) {
    return ClassifyResults{{{.index = first, .confidence = 0.6f}, {.index = 9}}};
  };
  EXPECT_EQ(Compared(answer(3), answer(3), VisionTask::kClassification), false);
  EXPECT_EQ(Compared(answer(3), answer(4), VisionTask::kClassification), true);
}

TEST(AnswerDifference, LogitsDifferWhereTheirLargestDoes) {
  const auto answer = [](std::vector<float> logits) {
    return TensorResults{Tensor("logits", DataType::kFp32, {1, 3}, logits)};
  };
  EXPECT_EQ(Compared(answer({0, 2, 1}), answer({-1, 5, 4}), VisionTask::kClassification), false);
  EXPECT_EQ(Compared(answer({0, 2, 1}), answer({0, 1, 2}), VisionTask::kClassification), true);
}

TEST(AnswerDifference, TritonsClassesDifferInTheFirst) {
  const auto answer = [](const std::string& first) {
    std::string data(4, '\0');
    data[0] = static_cast<char>(first.size());
    return TensorResults{{"logits", DataType::kBytes, {1, 1}, data + first}};
  };
  EXPECT_EQ(Compared(answer("0.5:17:cat"), answer("0.7:17:cat"), VisionTask::kClassification),
            false);
  EXPECT_EQ(Compared(answer("0.5:17"), answer("0.5:16"), VisionTask::kClassification), true);
  EXPECT_EQ(Compared(answer("nothing"), answer("0.5:16"), VisionTask::kClassification),
            std::nullopt);
}

TEST(AnswerDifference, OtherTensorsAndOtherBatchesAreNotCompared) {
  const TensorResults one = {Tensor("features", DataType::kFp32, {1, 2}, std::vector<float>{0, 1})};
  EXPECT_EQ(Compared(one, one, VisionTask::kClassification), std::nullopt);
  const TensorResults two = {Tensor("logits", DataType::kFp32, {2, 1}, std::vector<float>{0, 1})};
  EXPECT_EQ(Compared(two, two, VisionTask::kClassification), std::nullopt);
  const ClassifyResults images(2, {{.index = 1}});
  EXPECT_EQ(Compared(images, images, VisionTask::kClassification), std::nullopt);
}

// Of one image. Masks as files, which Agree could not read.
DetectResults Objects(const std::vector<std::pair<int, Box>>& objects) {
  DetectResults results(1);
  for (const auto& [index, box] : objects) {
    results[0].detections.push_back(
        {.box = box, .class_index = index, .mask = InstanceMask{.png = "a file"}});
  }
  return results;
}

TEST(AnswerDifference, DetectorsDifferWhereAnObjectHasNoPartner) {
  const Box box = {10, 10, 30, 30}, near = {11, 10, 31, 30}, far = {40, 40, 60, 60};
  const auto differ = [](const DetectResults& a, const DetectResults& b) {
    return Compared(a, b, VisionTask::kDetection);
  };
  EXPECT_EQ(differ(Objects({{1, box}}), Objects({{1, near}})), false);
  EXPECT_EQ(differ(Objects({{1, box}}), Objects({{2, near}})), true);
  EXPECT_EQ(differ(Objects({{1, box}}), Objects({{1, far}})), true);
  EXPECT_EQ(differ(Objects({{1, box}}), Objects({{1, near}, {1, far}})), true);
  EXPECT_EQ(differ(Objects({{1, box}, {1, far}}), Objects({{1, near}})), true);
  EXPECT_EQ(differ(Objects({}), Objects({})), false);
}

TEST(AnswerDifference, TensorsOfDetectorsAreReadUpToTheirCount) {
  const auto answer = [](int64_t count, float left) {
    return TensorResults{Tensor("boxes", DataType::kFp32, {1, 2, 4},
                                std::vector<float>{left, 0, left + 10, 10, 50, 50, 60, 60}),
                         Tensor("labels", DataType::kInt64, {1, 2}, std::vector<int64_t>{3, 3}),
                         Tensor("counts", DataType::kInt64, {1}, std::vector<int64_t>{count})};
  };
  EXPECT_EQ(Compared(answer(1, 0), answer(1, 1), VisionTask::kDetection), false);
  EXPECT_EQ(Compared(answer(1, 0), answer(2, 0), VisionTask::kDetection), true);
  EXPECT_EQ(Compared(answer(1, 0), answer(1, 20), VisionTask::kDetection), true);
  TensorResults boxes = answer(1, 0);
  boxes.pop_back();
  EXPECT_EQ(Compared(boxes, boxes, VisionTask::kDetection), std::nullopt);
}

constexpr int kSide = 10;  // a class map has 100 pixels

// In which the first `ones` pixels are of class 1, the others of class 0.
SegmentResults RunLengthMap(int64_t ones) {
  SegmentResults results(1);
  results[0].image = {kSide, kSide};
  for (const bool of_one : {false, true}) {
    RunLengths runs;
    runs.Add(of_one, ones);
    runs.Add(!of_one, kSide * kSide - ones);
    results[0].classes.push_back({.class_index = of_one ? 1 : 0, .run_lengths = runs.Text()});
  }
  return results;
}
SegmentResults PngMap(size_t ones) {
  std::vector<uint8_t> pixels(kSide * kSide);
  std::fill_n(pixels.begin(), ones, 1);
  SegmentResults results(1);
  results[0].image = {kSide, kSide};
  results[0].class_map_png = *EncodeGreyPng(pixels, results[0].image);
  return results;
}
TensorResults TensorMap(size_t ones) {
  std::vector<uint16_t> pixels(kSide * kSide, 300);
  std::fill_n(pixels.begin(), ones, 1);
  return {Tensor("class_map", DataType::kUint16, {1, kSide, kSide}, pixels)};
}

TEST(AnswerDifference, SegmentersDifferWhereMoreThanATwentiethOfThePixelsDo) {
  const auto differ = [](const Results& a, const Results& b) {
    return Compared(a, b, VisionTask::kSegmentation);
  };
  EXPECT_EQ(differ(RunLengthMap(50), RunLengthMap(55)), false);
  EXPECT_EQ(differ(RunLengthMap(50), RunLengthMap(56)), true);
  EXPECT_EQ(differ(PngMap(50), PngMap(55)), false);
  EXPECT_EQ(differ(PngMap(50), PngMap(56)), true);
  EXPECT_EQ(differ(TensorMap(50), TensorMap(55)), false);
  EXPECT_EQ(differ(TensorMap(50), TensorMap(56)), true);
  EXPECT_EQ(differ(PngMap(50), RunLengthMap(50)), std::nullopt);
}

TEST(AnswerDifference, FilesOfManyClassesAreNotCompared) {
  std::vector<uint16_t> pixels(kSide * kSide, 300);
  SegmentResults map(1);
  map[0].image = {kSide, kSide};
  map[0].class_map_png = *EncodeGreyPng(pixels, map[0].image);
  EXPECT_EQ(Compared(map, map, VisionTask::kSegmentation), std::nullopt);
}

}  // namespace
}  // namespace fovea
