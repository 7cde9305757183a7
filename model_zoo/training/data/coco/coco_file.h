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

namespace fovea::models::training {

struct CocoAnnotation {
  std::string name;         // "annotation 17", by its id or, where it has none, its place
  cv::Rect2f box;           // clipped to the picture, where its size is known
  int64_t class_index = 0;  // a place in CocoFile::labels
  bool crowd = false;
  // One of these, or neither.
  std::vector<std::vector<float>> polygons;
  std::string run_lengths;  // COCO's text (base/run_lengths.h), checked
  cv::Size run_lengths_of;  // the picture's size, as they say it and fill it

  bool has_mask() const { return !polygons.empty() || !run_lengths.empty(); }
};

struct CocoPicture {
  std::string file_name;                    // relative, and leads nowhere above
  cv::Size size;                            // empty: the file does not say
  std::vector<CocoAnnotation> annotations;  // as in the file; of an empty picture none
};

struct CocoFile {
  std::vector<CocoPicture> pictures;  // as in the file
  std::vector<std::string> labels;    // the categories' names, by ascending id
  // Annotations that are left out: their box has no area inside of the picture; they have polygons,
  // but none of three corners or more.
  int64_t without_area = 0, without_outline = 0;
};

// Reads while it parses: what is not needed is never kept, and no entry may hold more than a
// million values or nest deeper than sixteen levels. Throws DataError, naming the file and the
// entry, where something is missing, of another type, out of range or refers to what is not there.
// Polygons of fewer than three corners, or of an odd number of values, are left out, as detectron2
// does.
CocoFile ReadCocoFile(const std::filesystem::path& file);

// Gives the object the mask of an annotation that has one, which is kept and decoded when it is
// asked for; its box becomes the mask's. False, and nothing changes, where no pixel's middle lies
// in it. Throws DataError where run lengths are of another size.
bool SetMaskOfAnnotation(const std::shared_ptr<const CocoAnnotation>& annotation, cv::Size picture,
                         Object& object);

}  // namespace fovea::models::training
