#include "server/postprocess/postprocessor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "base/status.h"

namespace fovea {
namespace {

std::shared_ptr<ModelView> Model() {
  auto model = std::make_shared<ModelView>();
  model->num_classes = 3;
  model->longest_label = 4;
  model->labels = std::make_shared<const std::vector<std::string>>(
      std::vector<std::string>{"cat", "dog", "hen"});
  model->outputs = {{"logits", DataType::kFp32, {-1, 3}}};
  return model;
}

std::vector<OutputTensor> Logits() {
  const float values[] = {0.5f, 2.5f, 1.0f, 9.0f, 8.0f, 7.0f};
  std::string data(sizeof(values), '\0');
  std::memcpy(data.data(), values, sizeof(values));
  return {{"logits", DataType::kFp32, {2, 3}, data}};
}

constexpr RequestOptions Classes(int top_k) { return ClassifyOptions{.top_k = top_k}; }

TEST(PostprocessorTest, GivesTheClassesOfEachImage) {
  const auto postprocessor = Postprocessor::Create(Model());
  ASSERT_TRUE(postprocessor->Check(Classes(2)).ok());
  const std::vector<ImageTransform> images(2, ImageTransform::Identity(8, 8));
  const auto results = postprocessor->Process(Classes(2), Logits(), images);
  ASSERT_TRUE(results.ok()) << results.status();
  const auto& classes = std::get<ClassifyResults>(*results);
  ASSERT_EQ(classes.size(), 2u);
  ASSERT_EQ(classes[0].size(), 2u);
  EXPECT_EQ(classes[0][0].label, "dog");
  EXPECT_EQ(classes[1][0].label, "cat");
}

TEST(PostprocessorTest, GivesTensorsWhateverTheTask) {
  for (const VisionTask task : {VisionTask::kClassification, VisionTask::kSegmentation}) {
    auto model = Model();
    model->task = task;
    const auto postprocessor = Postprocessor::Create(model);
    ASSERT_TRUE(postprocessor->Check(WantedTensors()).ok());
    const auto results = postprocessor->Process(WantedTensors(), Logits(), {});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(std::get<TensorResults>(*results)[0].data, Logits()[0].data);
    EXPECT_FALSE(postprocessor->Check(WantedTensors{{{"boxes", 0}}}).ok());
  }
}

TEST(PostprocessorTest, ClassesNeedAClassifier) {
  auto model = Model();
  model->task = VisionTask::kSegmentation;
  const absl::Status status = Postprocessor::Create(model)->Check(Classes(5));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "model.no_classifier");
  EXPECT_EQ(status.message(), "the model's task is segmentation: it gives no classes");
}

TEST(PostprocessorTest, ClassesNeedLogits) {
  for (const TensorDescription& output :
       {TensorDescription{"output", DataType::kUint8, {-1, 4, 5, 3}},
        TensorDescription{"logits", DataType::kUint8, {-1, 10}}}) {
    auto model = Model();
    model->outputs = {output};
    const absl::Status status = Postprocessor::Create(model)->Check(Classes(5));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(ReasonOf(status), "model.no_classifier");
  }
}

TEST(PostprocessorTest, CountsWhatClassesTake) {
  const auto postprocessor = Postprocessor::Create(Model());
  const int64_t two = postprocessor->ResultBytes(Classes(2), {.pixels = 1});
  EXPECT_GE(two, 2 * 2 * 4);
  EXPECT_EQ(postprocessor->ResultBytes(Classes(1'000'000'000), {.pixels = 1}), two / 2 * 3)
      << "no more classes than there are";
}

}  // namespace
}  // namespace fovea
