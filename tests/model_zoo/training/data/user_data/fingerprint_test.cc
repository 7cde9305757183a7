#include "model_zoo/training/data/user_data/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "model_zoo/training/data/coco/coco_source.h"
#include "model_zoo/training/data/user_data/image_folder.h"
#include "model_zoo/training/data/user_data/mask_folder.h"
#include "tests/model_zoo/folder/temp_repository.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;

class FingerprintTest : public ::testing::Test {
 protected:
  // None of these files is decoded.
  FingerprintTest() {
    for (const char* name : {"classes/cat/1.png", "classes/cat/2.png", "classes/dog/3.png",
                             "images/a.png", "images/b.png", "masks/a.png", "masks/b.png"}) {
      folder_.Write(name, name);
    }
    folder_.Write("coco.json", Annotations("1.0"));
  }
  static std::string Annotations(const std::string& left) {
    return R"({"images": [{"id": 1, "file_name": "a.png", "width": 9, "height": 9}],
        "categories": [{"id": 1, "name": "x"}], "annotations": [
        {"image_id": 1, "category_id": 1, "bbox": [)" +
           left + ", 1, 2, 2]}]}";
  }
  ImageFolder Classes() const { return ImageFolder(folder_ / "classes"); }
  MaskFolder Masks() const { return {folder_ / "images", folder_ / "masks", {"ground", "thing"}}; }
  CocoSource Coco() const { return {folder_ / "coco.json", {folder_ / "images"}}; }
  void Move(const std::string& from, const std::string& to) const {
    fs::create_directories((folder_ / to).parent_path());
    fs::rename(folder_ / from, folder_ / to);
  }

  const TempRepository folder_;
};

TEST_F(FingerprintTest, StaysWhereTheFoldersMove) {
  const uint64_t classes = FingerprintOf(Classes()), masks = FingerprintOf(Masks()),
                 coco = FingerprintOf(Coco());
  EXPECT_EQ(FingerprintOf(Classes()), classes);
  for (const char* name : {"classes", "images", "masks", "coco.json"}) {
    Move(name, std::string("moved/") + name);
  }
  EXPECT_EQ(FingerprintOf(ImageFolder(folder_ / "moved/classes")), classes);
  EXPECT_EQ(FingerprintOf(
                MaskFolder(folder_ / "moved/images", folder_ / "moved/masks", {"ground", "thing"})),
            masks);
  EXPECT_EQ(FingerprintOf(CocoSource(folder_ / "moved/coco.json", {folder_ / "moved/images"})),
            coco);
}

// Files, names and sizes are the same, in the same order.
TEST_F(FingerprintTest, ChangesWithAPictureThatMovesToAnotherClass) {
  const uint64_t before = FingerprintOf(Classes());
  Move("classes/cat/2.png", "classes/dog/2.png");
  EXPECT_NE(FingerprintOf(Classes()), before);
}

TEST_F(FingerprintTest, ChangesWithTheSizeOfAMask) {
  const uint64_t before = FingerprintOf(Masks());
  folder_.Write("masks/b.png", "another");
  EXPECT_NE(FingerprintOf(Masks()), before);
}

TEST_F(FingerprintTest, ChangesWithABoxWhereTheFileKeepsItsSize) {
  const uint64_t before = FingerprintOf(Coco());
  folder_.Write("coco.json", Annotations("2.0"));
  EXPECT_NE(FingerprintOf(Coco()), before);
}

TEST_F(FingerprintTest, NeedsEveryFile) {
  const ImageFolder classes = Classes();
  folder_.Remove("classes/cat/2.png");
  EXPECT_THROW(FingerprintOf(classes), DataError);
}

}  // namespace
}  // namespace fovea::models::training
