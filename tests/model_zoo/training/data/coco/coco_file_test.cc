#include "model_zoo/training/data/coco/coco_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "model_zoo/training/data/sample_source.h"
#include "tests/model_zoo/folder/temp_repository.h"

namespace fovea::models::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kImages[] =
    R"("images": [{"id": 7, "file_name": "a.jpg", "width": 20, "height": 10},
                  {"id": 3, "file_name": "sub/b.jpg", "width": 8, "height": 8}])";
constexpr char kCategories[] =
    R"("categories": [{"id": 90, "name": "dog"}, {"id": 2, "name": "cat"}])";

// Of the first picture; not kept by the file that it is of.
std::shared_ptr<const CocoAnnotation> AnnotationOf(const CocoFile& file, size_t place) {
  return std::make_shared<const CocoAnnotation>(file.pictures.at(0).annotations.at(place));
}

class CocoFileTest : public ::testing::Test {
 protected:
  CocoFile Read(const std::string& text) const {
    folder_.Write("annotations.json", text);
    return ReadCocoFile(folder_ / "annotations.json");
  }
  CocoFile WithAnnotations(const std::string& annotations) const {
    return Read(std::string("{") + kImages + "," + kCategories + ", \"annotations\": [" +
                annotations + "]}");
  }
  template <typename Read>
  static std::string Error(const Read& read) {
    try {
      read();
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }
  std::string ErrorOf(const std::string& text) const {
    return Error([&] { Read(text); });
  }
  std::string ErrorOfAnnotation(const std::string& annotation) const {
    return Error([&] { WithAnnotations(annotation); });
  }

  const TempRepository folder_;
};

TEST_F(CocoFileTest, ReadsWhatWasWritten) {
  const CocoFile file = WithAnnotations(R"(
    {"id": 1, "image_id": 7, "category_id": 90, "bbox": [1, 2.5, 3, 4], "iscrowd": 0, "area": 12,
     "segmentation": [[1, 2.5, 4, 2.5, 4, 6.5, 1, 6.5]]},
    {"id": 2, "image_id": 7, "category_id": 2, "bbox": [0, 0, 20, 10], "iscrowd": 1,
     "segmentation": {"size": [10, 20], "counts": [50, 100, 50]}})");
  EXPECT_EQ(file.labels, (std::vector<std::string>{"cat", "dog"}));  // by id
  ASSERT_EQ(file.pictures.size(), 2u);
  EXPECT_EQ(file.pictures[0].file_name, "a.jpg");
  EXPECT_EQ(file.pictures[0].size, cv::Size(20, 10));
  ASSERT_EQ(file.pictures[0].annotations.size(), 2u);
  const auto dog = AnnotationOf(file, 0);
  EXPECT_EQ(dog->class_index, 1);
  EXPECT_EQ(dog->box, cv::Rect2f(1, 2.5f, 3, 4));
  EXPECT_FALSE(dog->crowd);
  Object object;
  ASSERT_TRUE(SetMaskOfAnnotation(dog, {20, 10}, object));
  EXPECT_EQ(object.mask_area, cv::Rect(1, 2, 3, 4));
  EXPECT_EQ(cv::countNonZero(object.mask()), 12);
  const auto cats = AnnotationOf(file, 1);
  EXPECT_TRUE(cats->crowd);
  ASSERT_TRUE(SetMaskOfAnnotation(cats, {20, 10}, object));
  EXPECT_EQ(object.mask_area, cv::Rect(5, 0, 10, 10));
  EXPECT_EQ(cv::countNonZero(object.mask()), 100);
  EXPECT_TRUE(file.pictures[1].annotations.empty());
}

TEST_F(CocoFileTest, TheOrderOfTheListsDoesNotMatter) {
  const CocoFile file =
      Read(std::string(R"({"annotations": [{"id": 1, "image_id": 3, "category_id": 2,
           "bbox": [1, 1, 2, 2]}], "info": {"year": 2017, "by": [1, {"a": null}]},)") +
           kCategories + "," + kImages + "}");
  EXPECT_EQ(file.pictures[1].annotations.size(), 1u);
  EXPECT_FALSE(file.pictures[1].annotations[0].has_mask());
}

TEST_F(CocoFileTest, SizesAndIdsMayBeMissing) {
  const CocoFile file = Read(std::string("{") + kCategories + R"(, "images": [
      {"id": 1, "file_name": "a.jpg"}], "annotations": [
      {"image_id": 1, "category_id": 2, "bbox": [-5, 2, 100, 9],
       "segmentation": {"size": [3, 4], "counts": [6, 6]}}]})");
  EXPECT_TRUE(file.pictures[0].size.empty());
  const auto annotation = AnnotationOf(file, 0);
  EXPECT_EQ(annotation->name, "annotation number 1");
  EXPECT_EQ(annotation->box, cv::Rect2f(-5, 2, 100, 9));  // clipped once the picture is read
  Object object;
  EXPECT_TRUE(SetMaskOfAnnotation(annotation, {4, 3}, object));
  EXPECT_THROW(SetMaskOfAnnotation(annotation, {3, 4}, object), DataError);
}

TEST_F(CocoFileTest, BoxesAreClippedAndThoseWithoutAreaCounted) {
  const auto box = [](const char* numbers) {
    return std::string(R"({"id": 1, "image_id": 7, "category_id": 2, "bbox": [)") + numbers + "]}";
  };
  const CocoFile file =
      WithAnnotations(box("-5, -5, 10, 10") + "," + box("3, 3, 0, 4") + "," + box("3, 3, -2, 4") +
                      "," + box("20, 1, 5, 5") + "," + box("18, 8, 50, 50"));
  ASSERT_EQ(file.pictures[0].annotations.size(), 2u);
  EXPECT_EQ(file.pictures[0].annotations[0].box, cv::Rect2f(0, 0, 5, 5));
  EXPECT_EQ(file.pictures[0].annotations[1].box, cv::Rect2f(18, 8, 2, 2));
  EXPECT_EQ(file.without_area, 3);
}

TEST_F(CocoFileTest, InvalidPolygonsAreIgnored) {
  const CocoFile file = WithAnnotations(R"({"id": 1, "image_id": 7, "category_id": 2,
      "bbox": [1, 1, 9, 9], "segmentation": [[1, 1, 5, 5], [1, 1, 5, 5, 5, 1, 9], [],
                                             [1, 1, 5, 5, 5, 1]]})");
  EXPECT_EQ(file.pictures[0].annotations[0].polygons.size(), 1u);
  EXPECT_FALSE(file.pictures[0].annotations[0].without_outline);
  // To have no polygon is another thing than to have none of three corners.
  const std::string head =
      R"({"image_id": 7, "category_id": 2, "bbox": [1, 1, 9, 9], "segmentation": )";
  for (const auto& [mask, without_outline] : {std::pair("[[1, 1, 5, 5]]", true),
                                              {"[[]]", true},
                                              {"[]", false},
                                              {"null", false},
                                              {"NaN", false},
                                              {"\"\"", false},
                                              {"{}", false}}) {
    const CocoFile other = WithAnnotations(head + mask + "}");
    ASSERT_EQ(other.pictures[0].annotations.size(), 1u) << mask;
    EXPECT_EQ(other.pictures[0].annotations[0].without_outline, without_outline) << mask;
    EXPECT_FALSE(other.pictures[0].annotations[0].has_mask()) << mask;
  }
}

// The same in `fovea evaluate`.
TEST_F(CocoFileTest, FieldsThatSayNothingAreAbsent) {
  const std::string box = R"("bbox": [1, 2, 3, 4])", of = R"("image_id": 7, "category_id": 2, )",
                    mask = R"(, "segmentation": [[1, 1, 5, 1, 5, 6]])";
  for (const std::string& annotation :
       {box + R"(, "area": null)", box + R"(, "area": NaN)", box + R"(, "iscrowd": null)",
        box + R"(, "iscrowd": false)", box + R"(, "id": "0b8e-a1")", box + R"(, "id": -Infinity)",
        R"("bbox": null)" + mask, R"("bbox": [])" + mask, R"("bbox": [NaN, 1, 2, 3])" + mask,
        mask.substr(2)}) {
    const CocoFile file = WithAnnotations("{" + of + annotation + "}");
    EXPECT_EQ(file.pictures[0].annotations.size(), 1u) << annotation;
    EXPECT_EQ(file.without_area, 0) << annotation;
  }
  for (const char* without : {R"("bbox": null)", R"("bbox": [])", R"("bbox": [1, NaN, 2, 3])"}) {
    const CocoFile file = WithAnnotations("{\"id\": 12, " + of + without + "}");
    EXPECT_TRUE(file.pictures[0].annotations.empty()) << without;
    EXPECT_EQ(file.first_without_area, "annotation 12") << without;
  }
  // NaN in a text is a text.
  EXPECT_EQ(Read(R"({"images": [{"id": 1, "file_name": "NaN\"NaN.jpg", "width": NaN}],
                     "categories": [], "annotations": []})")
                .pictures[0]
                .file_name,
            "NaN\"NaN.jpg");
}

TEST_F(CocoFileTest, IdsAreNumbersOrTexts) {
  const CocoFile file = Read(R"({"images": [{"id": "0b8e", "file_name": "a.jpg"},
                                            {"id": "12", "file_name": "b.jpg"}],
      "categories": [{"id": "9", "name": "dog"}, {"id": 10, "name": "cat"}, {"id": "x", "name": "y"}],
      "annotations": [{"image_id": "0b8e", "category_id": "10", "bbox": [1, 1, 2, 2]},
                      {"image_id": 12, "category_id": 9, "bbox": [1, 1, 2, 2]}]})");
  EXPECT_EQ(file.labels, (std::vector<std::string>{"dog", "cat", "y"}));
  EXPECT_EQ(file.pictures[0].annotations.at(0).class_index, 1);
  EXPECT_EQ(file.pictures[1].annotations.at(0).class_index, 0);
}

TEST_F(CocoFileTest, ACategoryOfKindsAloneIsNoClass) {
  const auto labels = [this](const std::string& first, const std::string& second, int shown) {
    return Read(R"({"images": [{"id": 1, "file_name": "a.jpg"}], "categories": [)" + first + "," +
                second + R"(], "annotations": [{"image_id": 1, "category_id": )" +
                std::to_string(shown) + R"(, "bbox": [1, 1, 2, 2]}]})")
        .labels;
  };
  using Labels = std::vector<std::string>;
  const std::string root = R"({"id": 0, "name": "coins", "supercategory": "none"})",
                    same = R"({"id": 0, "name": "cent", "supercategory": "none"})",
                    kind = R"({"id": 1, "name": "cent", "supercategory": "coins"})",
                    own = R"({"id": 1, "name": "cent", "supercategory": "cent"})";
  EXPECT_EQ(labels(root, kind, 1), Labels{"cent"});  // Roboflow's
  EXPECT_EQ(labels(same, own, 1), Labels{"cent"});   // of a project called as its class
  EXPECT_EQ(labels(root, kind, 0), (Labels{"coins", "cent"}));
  EXPECT_EQ(labels(root, own, 1), (Labels{"coins", "cent"}));
}

TEST_F(CocoFileTest, ClassesAreNumberedAsAnothersAre) {
  CocoFile file = WithAnnotations(
      R"({"id": 4, "image_id": 7, "category_id": 90, "bbox": [1, 1, 2, 2]})");  // a dog
  file.Relabel({"dog", "cow"});
  EXPECT_EQ(file.pictures[0].annotations[0].class_index, 0);
  EXPECT_THAT(Error([&] { file.Relabel({"cow"}); }),
              HasSubstr("annotation 4: the training has no category 'dog'"));
}

TEST_F(CocoFileTest, AnnotationsOfTurnedPicturesShow) {
  const auto upright = [this](const char* rest) {
    return WithAnnotations(R"({"image_id": 7, "category_id": 2, )" + std::string(rest) + "}")
        .upright_annotations;
  };
  EXPECT_FALSE(upright(R"("bbox": [0, 0, 20, 10])"));
  EXPECT_FALSE(upright(R"("bbox": [15, 5, 90, 90])"));
  EXPECT_TRUE(upright(R"("bbox": [2, 12, 5, 8])"));
  EXPECT_TRUE(upright(R"("segmentation": {"size": [20, 10], "counts": [50, 100, 50]})"));
}

TEST_F(CocoFileTest, ErrorsNameTheFileAndTheEntry) {
  const std::string head = R"({"id": 5, "image_id": 7, "category_id": 2, "bbox": )";
  EXPECT_THAT(ErrorOfAnnotation(head + "[1, 2, 3]}"),
              AllOf(HasSubstr("annotations.json"), HasSubstr("annotation 5: \"bbox\"")));
  EXPECT_THAT(ErrorOfAnnotation(head + R"([1, 2, 3, "4"]})"), HasSubstr("what is no number"));
  EXPECT_THAT(ErrorOfAnnotation(head + "[1, 2, 3, 1e30]}"), HasSubstr("above a million"));
  EXPECT_THAT(ErrorOfAnnotation(head + "[1, 2, 3, 1e999]}"), HasSubstr("it is no JSON"));
  EXPECT_THAT(ErrorOfAnnotation(head + R"([1, 2, 3, 4], "segmentation": [[1, 2, NaN]]})"),
              HasSubstr("annotation 5: \"segmentation\" holds what is no number"));
  EXPECT_THAT(ErrorOfAnnotation(head + R"([1, 2, 3, 4], "segmentation": [7]})"),
              HasSubstr("annotation 5: \"segmentation\" holds what is no polygon"));
  EXPECT_THAT(ErrorOfAnnotation(head + R"([1, 2, 3, 4], "segmentation": "x"})"),
              HasSubstr("neither polygons nor run lengths"));
  EXPECT_THAT(ErrorOfAnnotation(R"({"id": 5, "image_id": 7, "segments_info": [{"id": 1}]})"),
              HasSubstr("COCO's panoptic format"));
  EXPECT_THAT(ErrorOfAnnotation(R"({"image_id": 7, "category_id": 2, "bbox": [1, 2, 3, "4"]})"),
              HasSubstr("annotation number 1: \"bbox\""));
  EXPECT_THAT(ErrorOfAnnotation(R"({"id": [], "image_id": 7})"),
              HasSubstr("annotation number 1: \"id\" is no whole number"));
  EXPECT_THAT(
      ErrorOfAnnotation(R"({"id": 5, "image_id": 8, "category_id": 2, "bbox": [1, 2, 3, 4]})"),
      HasSubstr("annotation 5: there is no image 8"));
  EXPECT_THAT(
      ErrorOfAnnotation(R"({"id": 5, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]})"),
      HasSubstr("annotation 5: there is no category 1"));
  EXPECT_THAT(ErrorOfAnnotation("3"), HasSubstr("\"annotations\" holds what is no object"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("it has no list \"images\""));
  EXPECT_THAT(ErrorOf("[1, 2]"), HasSubstr("it has no list \"images\""));
  EXPECT_THAT(ErrorOf("{\"images\": ["), HasSubstr("it is no JSON"));
  EXPECT_THAT(Error([&] { ReadCocoFile(folder_ / "none.json"); }), HasSubstr("no such file"));
}

TEST_F(CocoFileTest, RunLengthsHaveToFit) {
  const std::string head =
      R"({"id": 5, "image_id": 7, "category_id": 2, "bbox": [1, 2, 3, 4], "segmentation": )";
  EXPECT_THAT(ErrorOfAnnotation(head + R"({"size": [20, 11], "counts": [220]}})"),
              HasSubstr("another size than its image"));
  EXPECT_THAT(ErrorOfAnnotation(head + R"({"size": [10], "counts": [200]}})"),
              HasSubstr("\"size\" is not a height and a width"));
  EXPECT_THAT(ErrorOfAnnotation(head + R"({"size": [10, 20], "counts": [-1]}})"),
              HasSubstr("\"counts\" holds what is no number of pixels"));
  EXPECT_THAT(ErrorOfAnnotation(head + R"({"size": [10, 20], "counts": "P"}})"),
              HasSubstr("annotation 5: its run lengths are not those of 20 x 10 pixels"));
  EXPECT_THAT(ErrorOfAnnotation(head + R"({"size": [10, 20], "counts": [10, 20]}})"),
              HasSubstr("annotation 5: its run lengths are not those of 20 x 10 pixels"));
  EXPECT_THAT(ErrorOfAnnotation(head + R"({"size": [0, 20], "counts": []}})"),
              HasSubstr("\"size\" is not a height and a width"));
}

TEST_F(CocoFileTest, PicturesAndCategoriesAreChecked) {
  const auto error = [this](const std::string& images, const std::string& categories) {
    return ErrorOf("{\"images\": [" + images + "], \"categories\": [" + categories +
                   "], \"annotations\": []}");
  };
  const std::string one = R"({"id": 1, "file_name": "a.jpg", "width": 2, "height": 2})";
  EXPECT_EQ(error(one, ""), "");
  EXPECT_THAT(error(one + "," + one, ""), HasSubstr("image 1: another one has the same id"));
  // It may be on another machine: whether it is here is told when it is looked for.
  EXPECT_EQ(error(R"({"id": 1, "file_name": "/etc/a", "width": 30000, "height": 30000})", ""), "");
  EXPECT_EQ(error(R"({"id": 1, "file_name": "a", "width": 0, "height": null})", ""), "");
  EXPECT_THAT(error(R"({"id": 1, "file_name": "a", "width": -1, "height": 2})", ""),
              HasSubstr("image 1: \"width\" is -1"));
  EXPECT_THAT(error(R"({"id": 1, "file_name": "a\u0000b", "width": 2, "height": 2})", ""),
              HasSubstr("image 1: its file_name"));
  EXPECT_THAT(error(one, R"({"id": 1, "name": "x"}, {"id": 2, "name": "x"})"),
              HasSubstr("category 2: another one is called"));
  EXPECT_THAT(error(one, R"({"id": 1, "name": ""})"), HasSubstr("category 1: its name is empty"));
}

// Whatever a byte becomes: what is read can be drawn, or the error is in words.
TEST_F(CocoFileTest, DamagedFilesEndInWords) {
  const std::string sound = std::string("{") + kImages + "," + kCategories + R"(, "annotations": [
    {"id": 1, "image_id": 7, "category_id": 90, "bbox": [1, 2.5, 3, 4], "iscrowd": 0,
     "segmentation": [[1, 2.5, 4, 2.5, 4, 6.5, 1, 6.5]]},
    {"id": 2, "image_id": 7, "category_id": 2, "bbox": [0, 0, 20, 10], "iscrowd": 1,
     "segmentation": {"size": [10, 20], "counts": "b1d320"}}]})";
  std::mt19937 random(1);
  int errors = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string damaged = sound;
    const char digits[] = "0123456789-e.,[]{}\":";
    for (unsigned j = 0; j <= random() % 3; ++j) {
      damaged[random() % damaged.size()] =
          random() % 4 == 0 ? static_cast<char>(random()) : digits[random() % (sizeof(digits) - 1)];
    }
    try {
      for (const CocoPicture& picture : Read(damaged).pictures) {
        for (const CocoAnnotation& annotation : picture.annotations) {
          Object object;
          const auto kept = std::make_shared<const CocoAnnotation>(annotation);
          if (annotation.has_mask() && SetMaskOfAnnotation(kept, picture.size, object))
            object.mask();
        }
      }
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("annotation"));
      ++errors;
    }
  }
  EXPECT_GT(errors, 250);
}

TEST_F(CocoFileTest, NestingAndEntriesAreBounded) {
  const std::string open(100'000, '['), close(100'000, ']');
  EXPECT_THAT(ErrorOf("{\"x\": " + open + close + "}"), HasSubstr("nests deeper"));
  EXPECT_THAT(ErrorOfAnnotation("{\"id\": " + open + close + "}"), HasSubstr("nests deeper"));
  std::string many = R"({"id": 5, "segmentation": [[1)";
  for (int i = 0; i < 1'000'000; ++i) many += ",1";
  EXPECT_THAT(ErrorOfAnnotation(many + "]]}"), HasSubstr("more than a million values"));
  EXPECT_LT(ErrorOf("{\"" + std::string(1'000'000, 'x') + "\n").size(), 1000u);
}

}  // namespace
}  // namespace fovea::models::training
