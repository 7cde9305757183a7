// COCO's annotations: what a JSON file says about the objects of many pictures.
//   https://cocodataset.org/#format-data, "object detection".
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "model_zoo/training/data/sample.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

struct CocoAnnotation {
  std::string name;  // "annotation 17", by its id or, where it has none, its place
  // Clipped to the picture, where its size is known; empty: the mask's.
  cv::Rect2f box;
  int64_t class_index = 0;  // a place in CocoFile::labels
  bool crowd = false;
  bool without_outline = false;  // it has polygons, but none of three corners or more
  // One of these, or neither.
  std::vector<std::vector<float>> polygons;
  std::string run_lengths;  // COCO's text (base/run_lengths.h), checked
  cv::Size run_lengths_of;  // the picture's size, as they say it and fill it

  bool has_mask() const { return !polygons.empty() || !run_lengths.empty(); }
};

struct CocoPicture {
  std::string file_name;                    // as the file has it: it may lead anywhere
  cv::Size size;                            // empty: the file does not say
  std::vector<CocoAnnotation> annotations;  // as in the file; of an empty picture none
};

struct CocoFile {
  std::vector<CocoPicture> pictures;  // as in the file
  std::vector<std::string> labels;    // the categories' names, by ascending id
  // Empty categories that are parents of others, as which Roboflow writes the project's name.
  std::vector<std::string> supercategories;
  // Annotations that are left out, as their box has no area inside of the picture, or is none; the
  // first of them by name.
  int64_t without_area = 0;
  std::string first_without_area;
  // Some box or run lengths lie in the picture only if it is turned: sizes are those of the stored
  // pixels, and annotations those of the upright picture.
  bool upright_annotations = false;

  // Numbers the classes as `known` does. Throws DataError where an object is of another class.
  void Relabel(const std::vector<std::string>& known);
};

// Reads while it parses: what is not needed is never kept, and no entry may hold more than a
// million values or nest deeper than sixteen levels. Throws DataError, naming the file and the
// entry, where something is missing, of another type, out of range or refers to what is not there,
// and where it is COCO's panoptic format, whose objects are in other files. Fields of null or NaN
// are absent. Polygons of fewer than three corners, or of an odd number of values, are left out, as
// detectron2 does. `progress` is told the annotations.
CocoFile ReadCocoFile(const std::filesystem::path& file, const ReadProgress& progress = {});

// Gives the object the mask of an annotation that has one, which is kept and decoded when it is
// asked for; its box becomes the mask's. False, and nothing changes, where no pixel's middle lies
// in it. The annotation is of a picture of size `annotated`, which EXIF's `orientation` turns
// upright. Throws DataError where run lengths are of another size.
bool SetMaskOfAnnotation(const std::shared_ptr<const CocoAnnotation>& annotation,
                         cv::Size annotated, Object& object, int orientation = 1);

}  // namespace fovea::models::training
