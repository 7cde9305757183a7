#include "client/cpp/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fovea::client {
namespace {

using ::testing::ElementsAre;

TEST(Tensor, GivesBackTheNumbersItWasMadeOf) {
  const Tensor tensor = FloatTensor("logits", {1, 3}, {1.5f, -2.0f, 0.25f});
  EXPECT_EQ(tensor.datatype, "FP32");
  EXPECT_EQ(tensor.data.size(), 12u);
  EXPECT_THAT(Floats(tensor).value(), ElementsAre(1.5f, -2.0f, 0.25f));
}

TEST(Tensor, OfBytesHasALittleEndianLengthBeforeEachElement) {
  const Tensor tensor = StringTensor("image", {"ab", ""});
  EXPECT_EQ(tensor.data, std::string("\2\0\0\0ab\0\0\0\0", 10));
  EXPECT_THAT(tensor.shape, ElementsAre(2, 1));
  EXPECT_THAT(Strings(tensor).value(), ElementsAre("ab", ""));
}

TEST(Tensor, IsNotReadAsAnotherType) {
  EXPECT_TRUE(absl::IsInvalidArgument(Floats(StringTensor("image", {"abcd"})).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Strings(FloatTensor("x", {1}, {1})).status()));
}

TEST(Tensor, IsNotReadPastItsData) {
  Tensor tensor = StringTensor("labels", {"abc"});
  tensor.data.pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(Strings(tensor).status()));
  tensor.data.resize(3);
  EXPECT_TRUE(absl::IsInvalidArgument(Strings(tensor).status()));
}

TEST(Tensor, OfAShapeThatItsDataDoNotFillIsRefused) {
  Tensor tensor = FloatTensor("x", {2, 2}, {1, 2, 3, 4});
  tensor.shape = {2, 3};
  EXPECT_FALSE(Floats(tensor).ok());
  tensor.shape = {-1, 4};
  EXPECT_FALSE(Floats(tensor).ok());
  // 2^32 * 2^32 is 0 in 64 bits.
  tensor.shape = {int64_t{1} << 32, int64_t{1} << 32, 4};
  EXPECT_FALSE(Floats(tensor).ok());
}

}  // namespace
}  // namespace fovea::client
