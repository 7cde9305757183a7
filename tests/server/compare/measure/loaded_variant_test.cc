// What is loaded to be measured, on small models with random weights.
#include "server/compare/measure/loaded_variant.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "server/compare/measure/prepared_images.h"
#include "tests/server/compare/served_models.h"

namespace fovea {
namespace {

class LoadedVariantTest : public ServedModelsTest {
 protected:
  // What is told of a batch of three of one picture.
  absl::StatusOr<Results> Finished(const std::string& name, bool every) {
    FOVEA_ASSIGN_OR_RETURN(const SourceModel model, FindSource(models_, {.model_name = name}));
    const std::vector<std::string> files = {Picture(64, 64, 1)};
    PreparedImagesByModel prepared(files, {.budget = imaging_->budget(), .clock = SteadyClock()});
    FOVEA_ASSIGN_OR_RETURN(const PreparedImages* images, prepared.Of(model));
    FOVEA_ASSIGN_OR_RETURN(auto loaded, LoadedVariant::Load(model, {.sizes = {0}, .batch_size = 3},
                                                            Environment(), cancellation_));
    FOVEA_ASSIGN_OR_RETURN(LoadedVariant::Pass pass, loaded->Run(images->images[0]));
    EXPECT_GT(pass.peak_bytes, 3 * 3 * 64 * 64 * int64_t{sizeof(float)});
    EXPECT_EQ(loaded->held_bytes(), loaded->weight_bytes() + pass.peak_bytes);
    return loaded->Finish(std::move(pass), every);
  }
};

TEST_F(LoadedVariantTest, AllThatIsFoundIsToldOfOneImageOfABatch) {
  Serve("classifier", "backbone: \"vit_demo_patch8_64\" num_classes: 7 max_batch_size: 1");
  const auto batch = Finished("classifier", /*every=*/false);
  const auto first = Finished("classifier", /*every=*/true);
  ASSERT_TRUE(batch.ok() && first.ok()) << batch.status() << first.status();
  const auto& all = std::get<ClassifyResults>(*batch);
  const auto& one = std::get<ClassifyResults>(*first);
  ASSERT_EQ(all.size(), 3u);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(all[0].size(), 5u);
  EXPECT_EQ(one[0].size(), 7u);
  EXPECT_EQ(one[0][0].index, all[0][0].index);
}

TEST_F(LoadedVariantTest, ObjectsAndMapsAreToldOfOneImageToo) {
  Serve("detector",
        "backbone: \"linglo_b0\" task: DETECTION num_classes: 3 max_batch_size: 1 "
        "head { name: \"retinanet\" score_threshold: 0 detections_per_image: 20 } "
        "image_height: 64 image_width: 64 preprocessing { shorter_side: 64 longer_side: 64 }");
  const auto objects = Finished("detector", /*every=*/true);
  ASSERT_TRUE(objects.ok()) << objects.status();
  ASSERT_EQ(std::get<DetectResults>(*objects).size(), 1u);
  EXPECT_EQ(std::get<DetectResults>(*objects)[0].detections.size(), 20u);
  Serve("segmenter",
        "backbone: \"linglo_b0\" task: SEGMENTATION num_classes: 3 max_batch_size: 1 "
        "head { name: \"semantic_fpn\" } image_height: 64 image_width: 64 "
        "preprocessing { shorter_side: 64 longer_side: 64 }");
  const auto map = Finished("segmenter", /*every=*/true);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(std::get<SegmentResults>(*map).size(), 1u);
}

}  // namespace
}  // namespace fovea
