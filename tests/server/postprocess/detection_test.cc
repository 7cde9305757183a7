#include "server/postprocess/detection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

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

TEST(DetectionTest, CountsWhatDetectionsTake) {
  const auto postprocessor = Postprocessor::Create(Model());
  const int64_t one = postprocessor->ResultBytes(DetectOptions{.max_detections = 1}, 1);
  EXPECT_GE(one, static_cast<int64_t>(sizeof(Detection)) + 3 * 3);
  EXPECT_EQ(postprocessor->ResultBytes(DetectOptions(), 1), kMost * one);
}

}  // namespace
}  // namespace fovea
