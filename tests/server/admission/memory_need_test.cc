#include "server/admission/memory_need.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(MemoryPerImage, CountsOutputsResultsAndPixelsThatHaveToBeMade) {
  ModelView model;
  model.sizes = {{10, 20}};
  model.outputs = {{"logits", DataType::kFp32, {-1, 1000}}, {"mask", DataType::kUint8, {-1, 5, 6}}};
  constexpr int64_t kOutputs = 1000 * 4 + 5 * 6;
  EXPECT_EQ(MemoryPerImage(model, /*decoded=*/false, /*result_bytes=*/0), kOutputs);
  EXPECT_EQ(MemoryPerImage(model, /*decoded=*/false, 77), kOutputs + 77);
  EXPECT_EQ(MemoryPerImage(model, /*decoded=*/true, 77), kOutputs + 77 + 10 * 20 * 3);
}

}  // namespace
}  // namespace fovea
