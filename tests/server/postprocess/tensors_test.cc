#include "server/postprocess/tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/status.h"

namespace fovea {
namespace {

OutputTensor Logits(std::vector<int64_t> shape, const std::vector<float>& values) {
  OutputTensor tensor{"logits", DataType::kFp32, std::move(shape), ""};
  tensor.data.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

std::vector<std::string> Elements(const OutputTensor& tensor) {
  std::vector<std::string> elements;
  for (size_t at = 0; at < tensor.data.size();) {
    uint32_t length;
    std::memcpy(&length, tensor.data.data() + at, sizeof(length));
    elements.push_back(tensor.data.substr(at + sizeof(length), length));
    at += sizeof(length) + length;
  }
  return elements;
}

ModelView Model() {
  ModelView model;
  model.num_classes = 1000;
  model.longest_label = 50;
  model.outputs = {{"logits", DataType::kFp32, {-1, 1000}},
                   {"masks", DataType::kUint8, {-1, 4, 5}}};
  return model;
}

// Row 7 of docs/faults.md.
TEST(WantedTensorsTest, AreTheModelsOwn) {
  EXPECT_TRUE(CheckWantedTensors({}, Model()).ok());
  EXPECT_TRUE(CheckWantedTensors({{{"masks", 0}, {"logits", 3}}}, Model()).ok());
  const absl::Status unknown = CheckWantedTensors({{{"boxes", 0}}}, Model());
  EXPECT_EQ(ReasonOf(unknown), "request.output_unknown");
  EXPECT_THAT(std::string(unknown.message()), testing::HasSubstr("'boxes'"));
  EXPECT_EQ(ReasonOf(CheckWantedTensors({{{"logits", 1}, {"masks", 1}}}, Model())),
            "request.classification_type")
      << "classes are made of floats only";
  ModelView segmenter = Model();
  segmenter.outputs = {{"logits", DataType::kFp32, {-1, 150, -1, -1}}};
  EXPECT_TRUE(CheckWantedTensors({{{"logits", 0}}}, segmenter).ok());
  EXPECT_EQ(ReasonOf(CheckWantedTensors({{{"logits", 1}}}, segmenter)),
            "request.classification_shape")
      << "of a map they would be pixels";
  ModelView detector = Model();
  detector.task = VisionTask::kDetection;
  detector.outputs = {{"scores", DataType::kFp32, {-1, 100}}};
  EXPECT_EQ(ReasonOf(CheckWantedTensors({{{"scores", 1}}}, detector)),
            "request.classification_shape")
      << "they would be places in a list";
}

// A caller who asks for every class of every image gets a text for each.
TEST(WantedTensorsTest, TextsOfClassesAreCounted) {
  EXPECT_EQ(WantedTensorBytes({}, Model()), 0);
  const int64_t five = WantedTensorBytes({{{"logits", 5}}}, Model());
  EXPECT_GE(five, 5 * 2 * 50);
  EXPECT_EQ(WantedTensorBytes({{{"logits", 1'000'000'000}}}, Model()), 200 * five)
      << "no more classes than there are";
}

TEST(WantedTensorsTest, OnlyTheyAreTaken) {
  const std::vector<OutputTensor> outputs = {Logits({1, 2}, {1.0f, 2.0f}),
                                             {"masks", DataType::kUint8, {1, 1}, "x"}};
  EXPECT_EQ(TakeWantedTensors({}, Model(), outputs).size(), 2u);
  const auto taken = TakeWantedTensors({{{"masks", 0}}}, Model(), outputs);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].data, "x");
  EXPECT_EQ(TakeWantedTensors({{{"logits", 1}}}, Model(), outputs)[0].type, DataType::kBytes);
}

TEST(ClassificationTensorTest, WritesValueIndexAndLabelOfEachImage) {
  const std::vector<std::string> labels = {"cat", "dog", "hen"};
  const auto tensor =
      ClassificationTensor(Logits({2, 3}, {0.5f, 2.5f, 1.0f, 9.0f, 8.0f, 7.0f}), 2, labels);
  EXPECT_EQ(tensor.type, DataType::kBytes);
  EXPECT_THAT(tensor.shape, testing::ElementsAre(2, 2));
  EXPECT_THAT(Elements(tensor), testing::ElementsAre("2.500000:1:dog", "1.000000:2:hen",
                                                     "9.000000:0:cat", "8.000000:1:dog"));
}

TEST(ClassificationTensorTest, LeavesTheLabelOutWhereThereIsNone) {
  EXPECT_THAT(Elements(ClassificationTensor(Logits({1, 2}, {1.0f, 2.0f}), 5, {})),
              testing::ElementsAre("2.000000:1", "1.000000:0"));
}

}  // namespace
}  // namespace fovea
