// A user's data in COCO's format: pictures in a folder, and a JSON file with boxes and masks.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model_zoo/training/data/coco/coco_file.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

// Has masks where every annotation but crowds has one. Boxes are the file's, clipped to the
// picture. An object whose mask covers no pixel's middle is left out, and so is one whose polygons
// have fewer than three corners where others have masks: where none has, they are boxes.
//   Annotations may be of the stored pixels of a picture that EXIF turns by 90 degrees: they are
// where width and height are those of the stored pixels, and are turned with it. Some tools write
// these sizes and annotate the upright picture: that shows in a box that lies in no other one.
class CocoSource final : public SampleSource {
 public:
  // Reads the annotations, and no picture yet. A picture is looked for by its name in each of
  // `folders` in turn, then without the first part of its name, and so on, since tools write paths
  // of the machine that they ran on: the first file that is there is the picture, where it is no
  // other one's, too. A backslash is a slash, and what stands before ".." is not looked for.
  // `labels`: the numbers of the classes; none: the file's. Throws DataError as ReadCocoFile, and
  // where there is no picture.
  CocoSource(const std::filesystem::path& annotations,
             const std::vector<std::filesystem::path>& folders,
             const std::vector<std::string>& labels = {}, const ReadProgress& progress = {});

  GroundTruth ground_truth() const override { return {.boxes = true, .masks = has_masks_}; }
  const std::vector<std::string>& labels() const override { return file_->labels; }
  const std::vector<std::string>& map_labels() const override { return map_labels_; }
  uint64_t size() const override { return file_->pictures.size(); }
  std::string Name(uint64_t index) const override { return file_->pictures.at(index).file_name; }
  std::vector<std::string> notes() const override;
  // Without pictures that are not there.
  std::vector<std::filesystem::path> files() const override;
  int64_t MaskCount(uint64_t index) const override;
  // Throws DataError where the picture is not there, cannot be read, or is of another size than the
  // annotations say.
  Sample Get(uint64_t index) const override;

 private:
  const std::shared_ptr<const CocoFile> file_;  // masks that are not decoded yet keep it
  const std::filesystem::path annotations_;
  std::vector<std::filesystem::path> pictures_;  // as in the file; empty: not there
  const std::vector<std::string> map_labels_;    // none
  // Objects that are no crowds.
  int64_t with_mask_ = 0, without_mask_ = 0, without_outline_ = 0;
  bool has_masks_ = false;
};

}  // namespace fovea::models::training
