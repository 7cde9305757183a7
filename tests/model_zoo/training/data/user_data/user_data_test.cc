#include "model_zoo/training/data/user_data/user_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_zoo/training/data/coco/coco_source.h"
#include "model_zoo/training/data/generated/scene.h"
#include "model_zoo/training/data/picture_files/exif_orientation.h"
#include "model_zoo/training/data/picture_files/picture_file.h"
#include "model_zoo/training/data/user_data/readable.h"
#include "model_zoo/training/data/user_data/write_data_set.h"
#include "tests/model_zoo/folder/temp_repository.h"
#include "tests/server/imaging/image_files.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> NamesOf(const SampleSource& source) {
  std::vector<std::string> names;
  for (uint64_t i = 0; i < source.size(); ++i) names.push_back(source.Name(i));
  return names;
}

class UserDataTest : public ::testing::Test {
 protected:
  void Picture(const std::string& name, cv::Size size = {4, 3}) const {
    fs::create_directories((folder_ / name).parent_path());
    WritePng(folder_ / name, cv::Mat(size, CV_8UC3, cv::Scalar(1, 2, 3)));
  }
  // A mask of that level, but for a pixel of 0.
  void Mask(const std::string& name, int level, cv::Size size = {4, 3}) const {
    fs::create_directories((folder_ / name).parent_path());
    cv::Mat mask(size, CV_8U, cv::Scalar::all(level));
    mask.at<uint8_t>(0, 0) = 0;
    WritePng(folder_ / name, mask);
  }
  void Coco(const std::string& name, const std::string& picture) const {
    folder_.Write(name, R"({"images": [{"id": 1, "file_name": ")" + picture +
                            R"(", "width": 4, "height": 3}], "categories": [{"id": 1, "name": "x"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2]}]})");
  }
  TrainingData Open(Task task, const UserDataOptions& options = {}) const {
    return OpenUserData(folder_.root(), task, options);
  }
  std::string ErrorOf(Task task) const {
    try {
      Open(task);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  const TempRepository folder_;
};

TEST_F(UserDataTest, ScenesOnDiskAreTheScenes) {
  const Scenes scenes({.stream = Stream::kTest, .sizes = {{96, 80}}, .count = 12});
  WriteDataSet(scenes, 0, SampleSource::kEndless, folder_.root());
  const TrainingData objects = Open(Task::kDetection), maps = Open(Task::kSegmentation);
  EXPECT_EQ(objects.training->labels(), scenes.labels());
  EXPECT_EQ(objects.training->ground_truth(), (GroundTruth{.boxes = true, .masks = true}));
  EXPECT_EQ(maps.training->map_labels(), scenes.map_labels());
  EXPECT_EQ(maps.training->ground_truth(), (GroundTruth{.class_map = true}));
  // The same pictures are held out of both.
  EXPECT_EQ(NamesOf(*objects.validation), NamesOf(*maps.validation));
  int seen = 0;
  for (const auto& [from_coco, from_masks] : {std::pair(objects.training, maps.training),
                                              std::pair(objects.validation, maps.validation)}) {
    for (uint64_t i = 0; i < from_coco->size(); ++i, ++seen) {
      const Sample drawn = scenes.Get(std::stoull(from_coco->Name(i)));
      const Sample read = from_coco->Get(i);
      EXPECT_EQ(cv::norm(read.rgb, drawn.rgb, cv::NORM_INF), 0);
      ASSERT_EQ(read.objects.size(), drawn.objects.size());
      for (size_t j = 0; j < read.objects.size(); ++j) {
        EXPECT_EQ(read.objects[j].box, drawn.objects[j].box);
        EXPECT_EQ(read.objects[j].class_index, drawn.objects[j].class_index);
        EXPECT_EQ(read.objects[j].mask_area, drawn.objects[j].mask_area);
        EXPECT_EQ(cv::norm(read.objects[j].mask(), drawn.objects[j].mask(), cv::NORM_INF), 0);
      }
      EXPECT_EQ(cv::norm(from_masks->Get(i).class_map, drawn.class_map, cv::NORM_INF), 0);
    }
  }
  EXPECT_EQ(seen, 12);
}

TEST_F(UserDataTest, AFolderForEachClass) {
  for (int i = 0; i < 4; ++i) {
    Picture("dog/" + std::to_string(i) + ".png");
    Picture("cat/" + std::to_string(i) + ".png");
  }
  folder_.Write("cat/notes.txt", "not a picture");
  folder_.Write(".hidden/x.png", "");
  const TrainingData data = Open(Task::kClassification);
  EXPECT_THAT(data.training->labels(), ElementsAre("cat", "dog"));
  EXPECT_EQ(data.training->size() + data.validation->size(), 8u);
  EXPECT_GT(data.validation->size(), 0u);
  for (uint64_t i = 0; i < data.training->size(); ++i) {
    EXPECT_EQ(data.training->Get(i).class_index, data.training->Name(i).starts_with("dog") ? 1 : 0);
  }
}

TEST_F(UserDataTest, AFolderForEachClassInSplits) {
  Picture("train/dog/1.png");
  Picture("train/cat/1.png");
  Picture("valid/dog/2.png");
  const TrainingData data = Open(Task::kClassification);
  EXPECT_THAT(NamesOf(*data.training), ElementsAre("cat/1.png", "dog/1.png"));
  EXPECT_THAT(NamesOf(*data.validation), ElementsAre("dog/2.png"));
  EXPECT_EQ(data.validation->Get(0).class_index, 1);
  Picture("valid/cow/2.png");
  EXPECT_THAT(ErrorOf(Task::kClassification), HasSubstr("there is no class 'cow'"));
}

TEST_F(UserDataTest, CocoInManyLayouts) {
  const struct {
    const char *training, *training_picture, *validation, *validation_picture;
  } layouts[] = {
      {"train/_annotations.coco.json", "train/a.png", "valid/_annotations.coco.json",
       "valid/b.png"},
      {"train/annotations.json", "train/images/a.png", "val/annotations.json", "val/images/b.png"},
      {"annotations/instances_train2017.json", "train2017/a.png",
       "annotations/instances_val2017.json", "val2017/b.png"},
      {"train.json", "images/a.png", "val.json", "images/b.png"},
      {"annotations/train.json", "images/train/a.png", "annotations/val.json", "images/val/b.png"},
  };
  for (const auto& layout : layouts) {
    for (const char* part : {"train", "valid", "val", "images", "annotations", "train2017",
                             "val2017", "train.json", "val.json"}) {
      folder_.Remove(part);
    }
    Picture(layout.training_picture);
    Picture(layout.validation_picture);
    Coco(layout.training, "a.png");
    Coco(layout.validation, "b.png");
    if (std::string_view(layout.training).starts_with("annotations/instances")) {
      folder_.Write("annotations/captions_train2017.json", "{}");
    }
    const TrainingData data = Open(Task::kDetection);
    EXPECT_THAT(NamesOf(*data.training), ElementsAre("a.png")) << layout.training;
    EXPECT_THAT(NamesOf(*data.validation), ElementsAre("b.png")) << layout.training;
    EXPECT_EQ(data.validation->Get(0).objects.size(), 1u);
    EXPECT_EQ(data.training->ground_truth(), (GroundTruth{.boxes = true}));
  }
}

// The same order as in test_evaluate_datasets.py, so that training and evaluation read the same
// files.
TEST_F(UserDataTest, CocoPicturesAreLookedForInOneOrder) {
  Coco("annotations/instances_train2017.json", "a.png");
  Coco("annotations/instances_val2017.json", "b.png");
  Picture("images/b.png");
  constexpr const char* kFolders[] = {"annotations/images",
                                      "annotations/data",
                                      "annotations",
                                      "images/train2017",
                                      "data/train2017",
                                      "train2017",
                                      "train2017/images",
                                      "train2017/data",
                                      "images/train",
                                      "data/train",
                                      "train",
                                      "train/images",
                                      "train/data",
                                      "images",
                                      "data",
                                      "."};
  for (size_t i = std::size(kFolders); i-- > 0;) {
    fs::create_directories(folder_ / kFolders[i]);
    const auto level = static_cast<uint8_t>(i);
    WritePng(folder_ / kFolders[i] / "a.png", cv::Mat(3, 4, CV_8UC3, cv::Scalar::all(level)));
    const TrainingData data = Open(Task::kDetection);
    EXPECT_EQ(data.training->Get(0).rgb.at<cv::Vec3b>(0, 0)[0], level) << kFolders[i];
  }
}

TEST_F(UserDataTest, MasksInSplits) {
  for (const bool split_first : {true, false}) {
    folder_.Remove("train");
    folder_.Remove("val");
    const auto place = [split_first](const std::string& kind, const std::string& split) {
      return split_first ? split + "/" + kind + "/" : kind + "/" + split + "/";
    };
    Picture(place("images", "train") + "a.png");
    Mask(place("masks", "train") + "a.png", 2);
    Picture(place("images", "val") + "b.png");
    Mask(place("masks", "val") + "b.png", 255);
    const TrainingData data = Open(Task::kSegmentation);
    EXPECT_THAT(data.validation->map_labels(), ElementsAre("0", "1", "2"));
    EXPECT_EQ(cv::countNonZero(data.validation->Get(0).class_map == 255), 11);
  }
}

TEST_F(UserDataTest, FilesAreWhatIsRead) {
  Picture("train/cat/more/a.png");
  Picture("train/dog/b.png");
  Picture("val/dog/c.png");
  folder_.Write("train/dog/notes.txt", "not a picture");
  EXPECT_THAT(Open(Task::kClassification).training->files(),
              ElementsAre(folder_ / "train/cat/more/a.png", folder_ / "train/dog/b.png"));
  Picture("images/train/a.png");
  Mask("masks/train/a.png", 1);
  Mask("masks/train/unused.png", 1);
  Picture("images/val/b.png");
  Mask("masks/val/b.png", 1);
  EXPECT_THAT(Open(Task::kSegmentation).training->files(),
              ElementsAre(folder_ / "images/train/a.png", folder_ / "masks/train/a.png"));
  Coco("annotations/train.json", "a.png");
  Coco("annotations/val.json", "b.png");
  EXPECT_THAT(Open(Task::kDetection).training->files(),
              ElementsAre(folder_ / "annotations/train.json", folder_ / "images/train/a.png"));
}

TEST_F(UserDataTest, FoldersBelowAreReadToo) {
  Picture("train/cat/a.png");
  Picture("train/cat/more/b.png");
  Picture("train/cat/.hidden/c.png");
  Picture("train/dog/a.png");
  Picture("val/cat/d.png");
  EXPECT_THAT(NamesOf(*Open(Task::kClassification).training),
              ElementsAre("cat/a.png", "cat/more/b.png", "dog/a.png"));
  Picture("images/x/a.png");
  Mask("masks/x/a.png", 1);
  Picture("images/y/a.png");
  Mask("masks/y/a.png", 2);
  const TrainingData maps = Open(Task::kSegmentation);
  for (const auto& source : {maps.training, maps.validation}) {
    ASSERT_EQ(source->size(), 1u);
    EXPECT_EQ(source->Get(0).class_map.at<uint8_t>(1, 1), source->Name(0) == "x/a.png" ? 1 : 2);
  }
}

TEST_F(UserDataTest, ClassesThatAreNumbersAreInTheirOrder) {
  for (const char* name : {"2", "10", "1"}) Picture(std::string("train/") + name + "/a.png");
  Picture("val/10/a.png");
  const TrainingData data = Open(Task::kClassification);
  EXPECT_THAT(data.training->labels(), ElementsAre("1", "2", "10"));
  EXPECT_EQ(data.validation->Get(0).class_index, 2);
}

TEST_F(UserDataTest, BoxesOfPicturesOfUnknownSizeAreClippedWhenTheyAreRead) {
  Picture("images/a.png");
  Picture("images/b.png");
  folder_.Write("annotations.json", R"({"images": [{"id": 1, "file_name": "a.png"},
      {"id": 2, "file_name": "b.png"}], "categories": [{"id": 1, "name": "x"}], "annotations": [
      {"image_id": 1, "category_id": 1, "bbox": [1, 1, 90, 90]},
      {"image_id": 2, "category_id": 1, "bbox": [1, 1, 90, 90]},
      {"image_id": 1, "category_id": 1, "bbox": [70, 1, 9, 9]},
      {"image_id": 2, "category_id": 1, "bbox": [70, 1, 9, 9]}]})");
  const Sample sample = Open(Task::kDetection).training->Get(0);
  ASSERT_EQ(sample.objects.size(), 1u);
  EXPECT_EQ(sample.objects[0].box, cv::Rect2f(1, 1, 3, 2));
}

TEST_F(UserDataTest, MasksAreUsedWhereEveryObjectHasOne) {
  const auto annotations = [](const char* last) {
    return std::string(R"({"images": [{"id": 1, "file_name": "a.png", "width": 4, "height": 3}],
        "categories": [{"id": 1, "name": "x"}], "annotations": [
        {"image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2],
         "segmentation": [[0, 0, 2, 0, 2, 2, 0, 2]]},
        {"image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 3], "iscrowd": 1},
        {"image_id": 1, "category_id": 1, "bbox": [1, 1, 0, 0]},
        {"image_id": 1, "category_id": 1, "bbox": [1, 1, 1, 1], "segmentation": )") +
           last + "}]}";
  };
  Picture("train/a.png");
  Picture("val/a.png");
  folder_.Write("train/a.json", annotations("[[1, 1, 2, 1, 2, 2]]"));
  folder_.Write("val/a.json", annotations("[]"));
  const TrainingData data = Open(Task::kDetection);
  EXPECT_TRUE(data.training->ground_truth().masks);
  EXPECT_THAT(data.training->notes(), ElementsAre(HasSubstr("1 boxes without area")));
  const Sample sample = data.training->Get(0);
  ASSERT_EQ(sample.objects.size(), 3u);
  EXPECT_EQ(sample.objects[0].mask_area, cv::Rect(0, 0, 2, 2));
  EXPECT_TRUE(sample.objects[1].crowd);
  EXPECT_FALSE(data.validation->ground_truth().masks);
  EXPECT_THAT(data.validation->notes(),
              ElementsAre(HasSubstr("1 boxes"), HasSubstr("1 of 2 objects have none")));
}

// A byte for each pixel of each: two of them are too many here.
TEST_F(UserDataTest, PicturesWhoseMasksTakeTooMuchAreLeftOut) {
  std::string images, annotations;
  for (const char name : {'a', 'b', 'c'}) {
    Picture(std::string("images/") + name + ".png");
    const std::string id = std::to_string(name), comma = name == 'a' ? "" : ", ";
    images += comma + R"({"id": )" + id + R"(, "file_name": ")" + name + R"(.png"})";
    for (int crowd = 0; crowd < 2; ++crowd) {
      annotations += (annotations.empty() ? "" : ", ") + (R"({"image_id": )" + id) +
                     R"(, "category_id": 1, "iscrowd": )" +
                     std::to_string(name == 'b' ? 0 : crowd) +
                     R"(, "segmentation": [[0, 0, 2, 0, 2, 2]]})";
    }
  }
  folder_.Write("annotations.json", R"({"images": [)" + images +
                                        R"(], "categories": [{"id": 1, "name": "x"}],
      "annotations": [)" + annotations + "]}");
  const auto source = std::make_shared<const CocoSource>(folder_ / "annotations.json",
                                                         std::vector<fs::path>{folder_ / "images"});
  std::vector<std::string> notes;
  EXPECT_THAT(NamesOf(*WithoutLargeMasks(source, kMaxMaskBytes, notes)),
              ElementsAre("a.png", "c.png"));
  EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr("1 of 3 pictures are left out:"),
                                       HasSubstr("b.png: the masks of its 2 objects take more"))));
  EXPECT_EQ(WithoutLargeMasks(source, kMaxMaskBytes / 2, notes), source);
  EXPECT_THROW(WithoutLargeMasks(source, kMaxMaskBytes + 1, notes), DataError);
}

TEST_F(UserDataTest, ReadingIsToldAsItGoesOn) {
  std::map<std::string, uint64_t> done, all;
  std::mutex mutex;
  const UserDataOptions options{
      .progress = [&](const std::string& what, uint64_t of_these, uint64_t of_all) {
        const std::lock_guard lock(mutex);
        done[what] = std::max(done[what], of_these);
        all[what] = of_all;
      }};
  for (const char* name : {"a", "b"}) {
    Picture(std::string("images/") + name + ".png");
    Mask(std::string("masks/") + name + ".png", 1);
  }
  Coco("train.json", "a.png");
  Coco("val.json", "b.png");
  Open(Task::kSegmentation, options);
  EXPECT_EQ(done["masks"], 1u) << "the first of two is done";
  EXPECT_EQ(done["pictures"], 2u);
  EXPECT_EQ(all["pictures"], 2u);
  Open(Task::kDetection, options);
  EXPECT_EQ(done["annotations"], 1u);
}

TEST_F(UserDataTest, LabelsNameTheLevels) {
  Picture("images/a.png");
  Mask("masks/a.png", 1);
  Picture("images/b.png");
  Mask("masks/b.png", 1);
  Mask("masks/unused.png", 7);
  folder_.Write("images/notes.txt", "not a picture");
  folder_.Write("labels.txt", "ground\r\nthing\n\n");
  const TrainingData data = Open(Task::kSegmentation);
  EXPECT_THAT(data.training->map_labels(), ElementsAre("ground", "thing"));
  EXPECT_THAT(
      data.training->notes(),
      ElementsAre("1 file left out: .txt 1", HasSubstr("1 mask without a picture is not used")));
}

TEST_F(UserDataTest, ErrorsAreInWords) {
  EXPECT_THAT(ErrorOf(Task::kClassification), HasSubstr("there is no folder of a class"));
  EXPECT_THAT(ErrorOf(Task::kDetection), HasSubstr("there is no one .json file"));
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("there are no folders images and masks"));
  Picture("images/a.png");
  fs::create_directories(folder_ / "masks");
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("there is no PNG in"));
  Mask("masks/other.png", 1);
  EXPECT_THAT(ErrorOf(Task::kSegmentation),
              AllOf(HasSubstr("images/a.png has no mask"), HasSubstr("nor has any other picture")));
  Coco("annotations.json", "other.png");
  EXPECT_THAT(ErrorOf(Task::kDetection),
              AllOf(HasSubstr("annotations.json"), HasSubstr("'other.png', which is in none of")));
  folder_.Write("labels.txt", "a\n\nb\n");
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("line 2 is empty"));
  folder_.Write("labels.txt", "a\na\n");
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("two labels are 'a'"));
}

// All that is wrong with pictures is told at once, and the others are learned from.
TEST_F(UserDataTest, WhatCannotBeReadIsLeftOut) {
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) {
    Picture(std::string("train/images/") + name + ".png");
    Mask(std::string("train/masks/") + name + ".png", 1);
  }
  Mask("train/masks/b.png", 9);
  Mask("train/masks/d.png", 0, {5, 5});
  folder_.Remove("train/masks/f.png");
  Picture("val/images/a.png");
  Mask("val/masks/a.png", 1);
  folder_.Write("labels.txt", "x\ny\n");
  const TrainingData data = Open(Task::kSegmentation);
  EXPECT_THAT(NamesOf(*data.training), ElementsAre("a.png", "c.png", "e.png", "g.png"));
  EXPECT_THAT(data.notes, ElementsAre(AllOf(HasSubstr("3 of 7 pictures are left out:"),
                                            HasSubstr("has the level 9, and there are 2 labels"),
                                            HasSubstr("is of another size than its picture"),
                                            HasSubstr("f.png has no mask"))));
  folder_.Remove("train/masks/a.png");
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("4 of 7 pictures cannot be read"));
}

TEST_F(UserDataTest, UnreadablePicturesAreSkipped) {
  for (int i = 0; i < 4; ++i) {
    Picture("cat/" + std::to_string(i) + ".png");
    Picture("dog/" + std::to_string(i) + ".png");
  }
  folder_.Write("cat/empty.jpg", "");
  folder_.Write("dog/page.jpg", "<html>404</html>");
  folder_.Write("dog/short.png", "\x89PNG\r\n\x1a\n");
  const TrainingData data = Open(Task::kClassification);
  EXPECT_EQ(data.training->size() + data.validation->size(), 8u);
  EXPECT_THAT(data.notes,
              ElementsAre(AllOf(HasSubstr("3 of 11 pictures are left out:"), HasSubstr("empty.jpg"),
                                HasSubstr("page.jpg"), HasSubstr("short.png"))));
}

TEST_F(UserDataTest, PicturesOfAnnotationsThatAreNotThereOrOfAnotherSizeAreLeftOut) {
  Picture("images/b.png");
  Picture("images/c.png");
  Picture("images/d.png", {5, 5});
  std::string images, annotations;
  for (int id = 0; id < 4; ++id) {
    const std::string comma = id > 0 ? ", " : "";
    images += comma + R"({"id": )" + std::to_string(id) + R"(, "file_name": ")" +
              static_cast<char>('a' + id) + R"(.png", "width": 4, "height": 3})";
    annotations += comma + R"({"image_id": )" + std::to_string(id) +
                   R"(, "category_id": 1, "bbox": [1, 1, 2, 2]})";
  }
  folder_.Write("annotations.json", R"({"images": [)" + images +
                                        R"(], "categories": [{"id": 1, "name": "x"}],
      "annotations": [)" + annotations + "]}");
  const TrainingData data = Open(Task::kDetection);
  EXPECT_EQ(data.training->size() + data.validation->size(), 2u);
  EXPECT_THAT(data.notes,
              ElementsAre(AllOf(HasSubstr("2 of 4 pictures"), HasSubstr("'a.png' is not there"),
                                HasSubstr("has 5 x 5 pixels, its annotations say 4 x 3"))));
}

TEST_F(UserDataTest, PicturesAreFoundByWhatToolsCallThem) {
  Coco("train.json", "a.png");
  for (const auto& [name, place] : {std::pair(R"(images\\a.png)", "images/a.png"),
                                    {R"(C:\\photos\\cam1\\a.png)", "images/cam1/a.png"},
                                    {"images/1/a.png", "images/a.png"},
                                    {"../label/a.png", "a.png"},
                                    {"/home/x/images/a.png", "images/a.png"},
                                    {"/data/upload/1/a.png", "images/a.png"},
                                    {"/data/local-files/?d=photos/a.png", "images/photos/a.png"},
                                    {"a.png", "data/a.png"},
                                    {"a.png", "train/images/a.png"},
                                    {"a.png", "train/data/a.png"}}) {
    SCOPED_TRACE(name);
    SCOPED_TRACE(place);
    for (const char* part : {"images", "data", "a.png", "train", "val"}) folder_.Remove(part);
    Picture(place);
    if (std::string_view(place).starts_with("train")) Picture("val" + std::string(place + 5));
    Coco("train.json", name);
    Coco("val.json", name);
    const TrainingData data = Open(Task::kDetection);
    EXPECT_EQ(data.training->files().at(1), folder_ / place);
  }
}

TEST_F(UserDataTest, TheSplitInAFilesNameIsAFolder) {
  Picture("images/default/a.png");
  Picture("images/default/b.png");
  folder_.Write("annotations/instances_default.json",
                R"({"images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}],
      "categories": [{"id": 1, "name": "x"}], "annotations": [
      {"image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2]},
      {"image_id": 2, "category_id": 1, "bbox": [1, 1, 2, 2]}]})");
  EXPECT_EQ(Open(Task::kDetection).training->size(), 1u);
  // The annotations by themselves, the pictures elsewhere.
  fs::rename(folder_ / "images/default", folder_ / "elsewhere");
  EXPECT_THAT(ErrorOf(Task::kDetection), HasSubstr("say where with --images"));
  EXPECT_EQ(OpenUserData(folder_ / "annotations/instances_default.json", Task::kDetection,
                         {.images = folder_ / "elsewhere"})
                .training->size(),
            1u);
}

// A file that two names end in may be either.
TEST_F(UserDataTest, TwoPicturesAreNotOneFile) {
  Picture("images/a.png");
  Picture("images/y/b.png");
  Picture("images/y/c.png");
  folder_.Write("annotations.json", R"({"images": [{"id": 1, "file_name": "x/a.png"},
      {"id": 2, "file_name": "y/a.png"}, {"id": 3, "file_name": "y/b.png"},
      {"id": 4, "file_name": "y/c.png"}], "categories": [{"id": 1, "name": "x"}],
      "annotations": [{"image_id": 3, "category_id": 1, "bbox": [1, 1, 2, 2]},
                      {"image_id": 4, "category_id": 1, "bbox": [1, 1, 2, 2]}]})");
  EXPECT_THAT(Open(Task::kDetection).notes, ElementsAre(HasSubstr("2 of 4 pictures")));
}

TEST_F(UserDataTest, WhatNothingCanBeLearnedFromIsRefused) {
  Picture("train/data/a.png");
  Picture("val/data/a.png");
  EXPECT_THAT(ErrorOf(Task::kClassification), HasSubstr("all pictures are of one class, 'data'"));
  Picture("images/train/a.png");
  Picture("images/val/a.png");
  Mask("masks/train/a.png", 255);
  Mask("masks/val/a.png", 1);
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("write 1 for the object"));
  folder_.Write("labels.txt", "ground\nthing\n");
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("one class, 'ground', or 255"));
  Mask("masks/train/a.png", 0);
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("one class, 'ground': there is nothing"));
  for (const auto& [annotation, words] :
       {std::pair(R"({"image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2], "iscrowd": 1})",
                  "all 1 objects are crowds"),
        {"", "there is no object"}}) {
    for (const char* name : {"annotations/train.json", "annotations/val.json"}) {
      folder_.Write(name, std::string(R"({"images": [{"id": 1, "file_name": "a.png"}],
          "categories": [{"id": 1, "name": "x"}], "annotations": [)") +
                              annotation + "]}");
    }
    EXPECT_THAT(ErrorOf(Task::kDetection), HasSubstr(words));
  }
}

TEST_F(UserDataTest, BoxesWhoseOutlinesAreNoneAreLearned) {
  const auto annotations = [this](const char* name, const char* outline, const char* other) {
    folder_.Write(name, std::string(R"({"images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 1, "name": "x"}], "annotations": [
        {"image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2], "segmentation": )") +
                            outline +
                            R"(}, {"image_id": 1, "category_id": 1, "bbox": [0, 0, 3, 3],
        "segmentation": )" + other +
                            "}]}");
  };
  Picture("images/a.png");
  annotations("train.json", "[[]]", "[[1, 1]]");
  annotations("val.json", "[[]]", "[[0, 0, 2, 0, 2, 2]]");
  const TrainingData data = Open(Task::kDetection);
  EXPECT_EQ(data.training->Get(0).objects.size(), 2u);
  EXPECT_FALSE(data.training->ground_truth().masks);
  // Beside masks such an object is none.
  EXPECT_EQ(data.validation->Get(0).objects.size(), 1u);
  EXPECT_TRUE(data.validation->ground_truth().masks);
  EXPECT_THAT(data.notes, ElementsAre(HasSubstr("their boxes count"),
                                      HasSubstr("validation: 1 objects whose polygons")));
}

TEST_F(UserDataTest, MasksMayHaveEqualChannelsAndLongerNames) {
  fs::create_directories(folder_ / "masks");
  const cv::Mat levels = (cv::Mat_<uint8_t>(1, 4) << 0, 1, 2, 255);
  cv::Mat equal, colours(1, 4, CV_8UC3, cv::Scalar(1, 2, 3));
  cv::merge(std::vector<cv::Mat>{levels, levels, levels}, equal);
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    Picture(std::string("images/") + name + ".png", {4, 1});
  }
  WritePng(folder_ / "masks/a.png", levels);
  WritePng(folder_ / "masks/b_mask.png", equal);
  WritePng(folder_ / "masks/c.png.png", equal);
  WritePng(folder_ / "masks/d-mask.png", equal);
  WritePng(folder_ / "masks/e.png", colours);
  const TrainingData data = Open(Task::kSegmentation);
  EXPECT_THAT(data.notes, ElementsAre(AllOf(HasSubstr("1 of 5 pictures"), HasSubstr("masks/e.png"),
                                            HasSubstr("it is in colours"))));
  for (uint64_t i = 0; i < data.training->size(); ++i) {
    EXPECT_EQ(cv::norm(data.training->Get(i).class_map, levels, cv::NORM_INF), 0);
  }
}

TEST_F(UserDataTest, FoldersWithoutPicturesAreNoClasses) {
  Picture("cat/a.png");
  Picture("dog/b.png");
  Picture("dog/c.png");
  folder_.Write("__MACOSX/cat/._a.png", "x");
  folder_.Write("zebra/notes.txt", "none yet");
  const TrainingData data = Open(Task::kClassification);
  EXPECT_THAT(data.training->labels(), ElementsAre("cat", "dog"));
  EXPECT_THAT(data.notes,
              ElementsAre("1 file left out: .txt 1", HasSubstr("no classes: '__MACOSX', 'zebra'")));
}

// Another tool's folder is no folder of classes.
TEST_F(UserDataTest, TheLayoutTellsTheTask) {
  const auto tasks = [this]() -> std::string {
    try {
      std::string names;
      for (const Task task : TasksOf(folder_.root())) names += NamesOf(task).in_words;
      return names;
    } catch (const DataError& error) {
      return error.what();
    }
  };
  struct Layout {
    std::vector<std::pair<const char*, const char*>> files;  // name, text; pictures: no text
    const char* words;
  };
  const char coco[] = R"({"images": [], "categories": [], "annotations": []})";
  const Layout layouts[] = {
      {{{"cat/a.png", ""}, {"dog/b.png", ""}}, "classification"},
      {{{"train/cat/a.png", ""}, {"train/dog/b.png", ""}}, "classification"},
      {{{"train/labels.json", coco}, {"train/data/a.png", ""}}, "detection"},
      {{{"labels.json", coco}, {"data/a.png", ""}}, "detection"},
      {{{"annotations/instances_default.json", coco}, {"images/default/a.png", ""}}, "detection"},
      {{{"images/a.png", ""}, {"masks/a.png", ""}}, "segmentation"},
      {{{"data.yaml", "names: [x]\ntrain: images\n"}, {"images/a.png", ""}}, "(Ultralytics)"},
      {{{"labels/a.txt", "0 0.5 0.5 0.1 0.2\n"}, {"images/a.png", ""}}, "YOLO's text files"},
      {{{"obj_train_data/a.txt", "0 0.5 0.5 0.1 0.2\n"},
        {"obj_train_data/a.png", ""},
        {"obj_val_data/b.png", ""}},
       "YOLO's text files"},
      {{{"obj.names", "x\n"}, {"obj_train_data/a.png", ""}}, "(Darknet)"},
      {{{"Annotations/a.xml", "<annotation><object/></annotation>"}, {"JPEGImages/a.png", ""}},
       "Pascal VOC's XML"},
      {{{"annotations.xml", "<?xml?><annotations/>"}, {"images/a.png", ""}}, "CVAT's XML"},
      {{{"a.json", R"({"shapes": [], "imagePath": "a.png"})"}, {"a.png", ""}}, "labelme's JSON"},
      {{{"tasks.json", R"([{"annotations": [{"result": [{"from_name": "l"}]}]}])"}},
       "Label Studio's JSON"},
      {{{"leftImg8bit/train/a.png", ""}, {"gtFine/train/a.png", ""}}, "Cityscapes"},
      {{{"JPEGImages/a.png", ""}, {"SegmentationClass/a.png", ""}}, "Pascal VOC"},
      {{{"images/a.png", ""}, {"labels/a.png", ""}}, "images, labels, which are no classes"},
      {{{"no_label/a.png", ""}}, "classification"},
      {{}, "holds data for no task"},
  };
  for (const Layout& layout : layouts) {
    for (const auto& entry : fs::directory_iterator(folder_.root())) fs::remove_all(entry.path());
    for (const auto& [name, text] : layout.files) {
      *text == 0 ? Picture(name) : folder_.Write(name, text);
    }
    EXPECT_THAT(tasks(), HasSubstr(layout.words));
  }
  try {
    TasksOf(folder_ / "nowhere");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), "there is no folder " + (folder_ / "nowhere").string());
  }
}

struct TurnedCase {
  int orientation;
  cv::Size size;   // as the annotations say it
  cv::Rect2f box;  // as they say it; the mask is the same
  bool with_mask;
};

TEST_F(UserDataTest, AnnotationsOfStoredPixelsAreTurnedWithThem) {
  const cv::Size upright(40, 60), stored(60, 40);
  const cv::Rect white(4, 26, 10, 20);
  std::vector<TurnedCase> cases;
  for (int orientation = 5; orientation <= 8; ++orientation) {
    const int back = orientation == 6 ? 8 : orientation == 8 ? 6 : orientation;
    const cv::Rect2f in_stored = UprightBox(cv::Rect2f(white), upright, back);
    for (const bool with_mask : {false, true}) {
      cases.push_back({orientation, stored, in_stored, with_mask});
      cases.push_back({orientation, upright, cv::Rect2f(white), with_mask});
      // Label Studio's: the size of the stored pixels, the box of the upright picture.
      cases.push_back({orientation, stored, cv::Rect2f(white), with_mask});
    }
  }
  RgbImage picture = RgbImage::Allocate(upright.height, upright.width);
  cv::Mat pixels(upright, CV_8UC3, picture.pixels.get());
  pixels = cv::Scalar::all(0);
  pixels(white) = cv::Scalar::all(255);
  for (const auto& [orientation, size, box, with_mask] : cases) {
    SCOPED_TRACE(::testing::Message() << orientation << " " << size << " " << box);
    const fovea::testing::File file = fovea::testing::TurnedJpeg(picture, orientation);
    const std::string bytes(reinterpret_cast<const char*>(file.data()), file.size());
    std::ostringstream annotation;
    annotation << R"("category_id": 1, "bbox": [)" << box.x << "," << box.y << "," << box.width
               << "," << box.height << "]";
    if (with_mask) {
      const float right = box.x + box.width, bottom = box.y + box.height;
      annotation << R"(, "segmentation": [[)" << box.x << "," << box.y << "," << right << ","
                 << box.y << "," << right << "," << bottom << "," << box.x << "," << bottom << "]]";
    }
    const std::string sides = R"("width": )" + std::to_string(size.width) + R"(, "height": )" +
                              std::to_string(size.height);
    folder_.Write("images/a.jpg", bytes);
    for (const char* name : {"train.json", "val.json"}) {
      folder_.Write(name, R"({"images": [{"id": 1, "file_name": "a.jpg", )" + sides +
                              R"(}], "categories": [{"id": 1, "name": "x"}], "annotations": [
          {"image_id": 1, )" + annotation.str() +
                              "}]}");
    }
    const Sample sample = Open(Task::kDetection).training->Get(0);
    ASSERT_EQ(sample.rgb.size(), upright);
    ASSERT_GT(cv::mean(sample.rgb(white))[0], 250);
    ASSERT_EQ(sample.objects.size(), 1u);
    EXPECT_EQ(sample.objects[0].box, cv::Rect2f(white));
    if (!with_mask) continue;
    EXPECT_EQ(sample.objects[0].mask_area, white);
    EXPECT_EQ(cv::countNonZero(sample.objects[0].mask()), white.area());
  }
}

}  // namespace
}  // namespace fovea::models::training
