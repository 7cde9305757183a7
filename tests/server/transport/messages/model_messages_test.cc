#include "server/transport/messages/model_messages.h"

#include <gmock/gmock.h>

namespace fovea {
namespace {

using inference::ModelInput;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Triton's image_client takes no input without a format.
TEST(FillConfig, TellsWhereThePixelsOfAnInputHaveTheirChannels) {
  const auto format = [](const TensorDescription& input) {
    ModelView view{.name = "vit"};
    view.inputs = {input};
    inference::ModelConfig config;
    FillConfig(view, &config);
    return config.input(0).format();
  };
  EXPECT_EQ(format({"pixel_values", DataType::kFp32, {-1, 3, 8, 9}}), ModelInput::FORMAT_NCHW);
  EXPECT_EQ(format({"image_rgb", DataType::kUint8, {-1, 8, 9, 3}}), ModelInput::FORMAT_NHWC);
  EXPECT_EQ(format({"image", DataType::kBytes, {-1, 1}}), ModelInput::FORMAT_NONE);
}

TEST(FillConfig, ANumberForEachImageIsADimensionThatIsReshapedAway) {
  ModelView view{.name = "detector"};
  view.outputs = {{"counts", DataType::kInt64, {-1}}, {"boxes", DataType::kFp32, {-1, 100, 4}}};
  inference::ModelConfig config;
  FillConfig(view, &config);
  EXPECT_THAT(config.output(0).dims(), ElementsAre(1));
  EXPECT_TRUE(config.output(0).has_reshape());
  EXPECT_THAT(config.output(0).reshape().shape(), IsEmpty());
  EXPECT_THAT(config.output(1).dims(), ElementsAre(100, 4));
  EXPECT_FALSE(config.output(1).has_reshape());
}

}  // namespace
}  // namespace fovea
