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
// picture. An object whose mask covers no pixel's middle is left out.
class CocoSource final : public SampleSource {
 public:
  // Reads the annotations, and no picture yet. The pictures are in the first of `folders` that has
  // the first of them. Throws DataError as ReadCocoFile, and where there is no picture, or none of
  // the folders has it.
  CocoSource(const std::filesystem::path& annotations,
             const std::vector<std::filesystem::path>& folders);

  GroundTruth ground_truth() const override { return {.boxes = true, .masks = has_masks_}; }
  const std::vector<std::string>& labels() const override { return file_->labels; }
  const std::vector<std::string>& map_labels() const override { return map_labels_; }
  uint64_t size() const override { return file_->pictures.size(); }
  std::string Name(uint64_t index) const override { return file_->pictures.at(index).file_name; }
  std::vector<std::string> notes() const override;
  std::vector<std::filesystem::path> files() const override;
  // Throws DataError where the picture cannot be read, or is of another size than the annotations
  // say.
  Sample Get(uint64_t index) const override;

 private:
  const std::shared_ptr<const CocoFile> file_;  // masks that are not decoded yet keep it
  const std::filesystem::path annotations_;
  std::filesystem::path pictures_;
  const std::vector<std::string> map_labels_;  // none
  int64_t without_mask_ = 0, with_mask_ = 0;   // of what is no crowd
  bool has_masks_ = false;
};

}  // namespace fovea::models::training
