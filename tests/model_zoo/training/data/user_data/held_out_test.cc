#include "model_zoo/training/data/user_data/held_out.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "model_zoo/training/data/generated/scene.h"

namespace fovea::models::training {
namespace {

TEST(HoldOutTest, DependsOnNamesAlone) {
  EXPECT_EQ(PlaceOfName("a/photo.jpg"), PlaceOfName("a/photo.png"));
  EXPECT_NE(PlaceOfName("a/photo.jpg"), PlaceOfName("b/photo.jpg"));
  EXPECT_NE(PlaceOfName("a.b/photo"), PlaceOfName("a"));
  int held = 0;
  for (int i = 0; i < 10000; ++i) {
    const double place = PlaceOfName("picture_" + std::to_string(i) + ".jpg");
    EXPECT_GE(place, 0);
    EXPECT_LT(place, 1);
    held += place < 0.1;
  }
  EXPECT_NEAR(held, 1000, 5 * 30);  // five deviations
}

TEST(HoldOutTest, NoSampleIsOnBothSidesAndNeitherIsEmpty) {
  for (const double share : {0.0, 0.1, 0.5, 1.0}) {
    for (uint64_t count = 2; count < 30; ++count) {
      const auto scenes = std::make_shared<Scenes>(Scenes::Options{.count = count});
      const TrainingData data = HoldOut(scenes, share);
      EXPECT_GT(data.training->size(), 0u);
      EXPECT_GT(data.validation->size(), 0u);
      std::set<std::string> all;
      for (const auto& side : {data.training, data.validation}) {
        for (uint64_t i = 0; i < side->size(); ++i) all.insert(side->Name(i));
      }
      EXPECT_EQ(all.size(), count);
      EXPECT_EQ(data.training->size() + data.validation->size(), count);
    }
  }
  EXPECT_THROW(HoldOut(std::make_shared<Scenes>(Scenes::Options{.count = 1}), 0.1), DataError);
}

}  // namespace
}  // namespace fovea::models::training
