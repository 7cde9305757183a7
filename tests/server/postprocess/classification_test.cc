#include "server/postprocess/classification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

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

TEST(TopClassesTest, OrdersByLogitAndGivesTheSoftmaxOverAllClasses) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f};
  const std::vector<std::string> labels = {"a", "b", "c"};
  const auto classes = TopClasses(logits, 2, labels);
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].label, "b");
  EXPECT_EQ(classes[1].label, "c");
  const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(2.0);
  EXPECT_NEAR(classes[0].confidence, std::exp(3.0) / sum, 1e-6);
  EXPECT_EQ(classes[0].logit, 3.0f);
}

TEST(TopClassesTest, BreaksTiesByTheLowerIndex) {
  const std::vector<float> logits = {5.0f, 7.0f, 7.0f, 7.0f};
  const auto classes = TopClasses(logits, 3, {});
  EXPECT_EQ(classes[0].index, 1);
  EXPECT_EQ(classes[1].index, 2);
  EXPECT_EQ(classes[2].index, 3);
}

TEST(TopClassesTest, GivesAllClassesWhenThereAreFewerThanAskedFor) {
  const std::vector<float> logits = {0.0f, 1.0f};
  EXPECT_EQ(TopClasses(logits, 10, {}).size(), 2u);
}

TEST(TopClassesTest, DoesNotOverflowOnLargeLogits) {
  const std::vector<float> logits = {3e38f, -3e38f};
  EXPECT_FLOAT_EQ(TopClasses(logits, 1, {})[0].confidence, 1.0f);
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
