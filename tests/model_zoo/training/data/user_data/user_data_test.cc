#include "model_zoo/training/data/user_data/user_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_zoo/training/data/generated/scene.h"
#include "model_zoo/training/data/picture_files/picture_file.h"
#include "model_zoo/training/data/user_data/write_data_set.h"
#include "tests/model_zoo/folder/temp_repository.h"

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
  void Mask(const std::string& name, int level, cv::Size size = {4, 3}) const {
    fs::create_directories((folder_ / name).parent_path());
    WritePng(folder_ / name, cv::Mat(size, CV_8U, cv::Scalar::all(level)));
  }
  void Coco(const std::string& name, const std::string& picture) const {
    folder_.Write(name, R"({"images": [{"id": 1, "file_name": ")" + picture +
                            R"(", "width": 4, "height": 3}], "categories": [{"id": 1, "name": "x"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2]}]})");
  }
  TrainingData Open(Task task) const { return OpenUserData(folder_.root(), task); }
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
    EXPECT_EQ(cv::mean(data.validation->Get(0).class_map)[0], 255);
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
  Picture("val/cat/d.png");
  EXPECT_THAT(NamesOf(*Open(Task::kClassification).training),
              ElementsAre("cat/a.png", "cat/more/b.png"));
  Picture("images/x/a.png");
  Mask("masks/x/a.png", 1);
  Picture("images/y/a.png");
  Mask("masks/y/a.png", 2);
  const TrainingData maps = Open(Task::kSegmentation);
  for (const auto& source : {maps.training, maps.validation}) {
    ASSERT_EQ(source->size(), 1u);
    EXPECT_EQ(cv::mean(source->Get(0).class_map)[0], source->Name(0) == "x/a.png" ? 1 : 2);
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

TEST_F(UserDataTest, LabelsNameTheLevels) {
  Picture("images/a.png");
  Mask("masks/a.png", 1);
  Picture("images/b.png");
  Mask("masks/b.png", 0);
  Mask("masks/unused.png", 7);
  folder_.Write("labels.txt", "ground\r\nthing\n\n");
  const TrainingData data = Open(Task::kSegmentation);
  EXPECT_THAT(data.training->map_labels(), ElementsAre("ground", "thing"));
  EXPECT_THAT(data.training->notes(), ElementsAre(HasSubstr("1 masks without a picture")));
}

TEST_F(UserDataTest, ErrorsAreInWords) {
  EXPECT_THAT(ErrorOf(Task::kClassification), HasSubstr("there is no folder of a class"));
  EXPECT_THAT(ErrorOf(Task::kDetection), HasSubstr("there is no one .json file"));
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("there is no folder"));
  Picture("images/a.png");
  fs::create_directories(folder_ / "masks");
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("has no mask"));
  Coco("annotations.json", "other.png");
  EXPECT_THAT(ErrorOf(Task::kDetection),
              AllOf(HasSubstr("annotations.json"), HasSubstr("'other.png', which is in none of")));
  folder_.Write("labels.txt", "a\n\nb\n");
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("line 2 is empty"));
  folder_.Write("labels.txt", "a\na\n");
  EXPECT_THAT(ErrorOf(Task::kSegmentation), HasSubstr("two labels are 'a'"));
}

TEST_F(UserDataTest, WhatDoesNotFitTogetherIsAnErrorWhenItIsRead) {
  Picture("images/a.png");
  Mask("masks/a.png", 9);
  Picture("images/b.png");
  Mask("masks/b.png", 0, {5, 5});
  folder_.Write("labels.txt", "x\ny\n");
  const TrainingData data = Open(Task::kSegmentation);
  std::string errors;
  for (const auto& source : {data.training, data.validation}) {
    try {
      source->Get(0);
    } catch (const DataError& error) {
      errors += error.what();
    }
  }
  EXPECT_THAT(errors, AllOf(HasSubstr("has the level 9, and there are 2 labels"),
                            HasSubstr("is of another size than its picture")));
}

TEST_F(UserDataTest, APictureOfAnotherSizeThanItsAnnotationsIsAnError) {
  Picture("train/a.png", {5, 5});
  Picture("val/a.png");
  Coco("train/x.json", "a.png");
  Coco("val/x.json", "a.png");
  const TrainingData data = Open(Task::kDetection);
  EXPECT_THROW(data.training->Get(0), DataError);
  EXPECT_EQ(data.validation->Get(0).objects.size(), 1u);
}

}  // namespace
}  // namespace fovea::models::training
