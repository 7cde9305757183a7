#include "server/admission/memory_need.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

class MemoryNeedTest : public testing::Test {
 protected:
  MemoryNeedTest() {
    model_.image_height = 10;
    model_.image_width = 20;
    model_.num_classes = 1000;
    model_.longest_label = 50;
    model_.outputs = {{"logits", DataType::kFp32, {-1, 1000}},
                      {"mask", DataType::kUint8, {-1, 5, 6}}};
  }
  int64_t Need(const InferenceRequest& request, int images = 1, bool decoded = false) {
    return MemoryNeed(request, {.images = images}, model_, decoded);
  }
  ModelView model_;
};

constexpr int64_t kOutputs = 1000 * 4 + 5 * 6;

TEST_F(MemoryNeedTest, CountsTheOutputsOfEveryImage) {
  EXPECT_EQ(Need({}), kOutputs);
  EXPECT_EQ(Need({}, 7), 7 * kOutputs);
}

TEST_F(MemoryNeedTest, CountsPixelsThatHaveToBeMade) {
  EXPECT_EQ(Need({}, 2, /*decoded=*/true), 2 * (kOutputs + 10 * 20 * 3));
}

// A caller who asks for every class of every image gets a text for each.
TEST_F(MemoryNeedTest, CountsTheTextsOfClasses) {
  InferenceRequest best;
  best.top_k = 5;
  const int64_t five = Need(best) - kOutputs;
  EXPECT_GE(five, 5 * 2 * 50);
  best.top_k = 1'000'000'000;
  EXPECT_EQ(Need(best) - kOutputs, 200 * five) << "no more classes than there are";
  InferenceRequest extension;
  extension.outputs = {{"logits", 5}};
  EXPECT_EQ(Need(extension) - kOutputs, five);
  extension.outputs = {{"logits", 1'000'000'000}};
  EXPECT_EQ(Need(extension) - kOutputs, 200 * five);
}

}  // namespace
}  // namespace fovea
