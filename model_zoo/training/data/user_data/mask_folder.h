// A user's data for segmentation: pictures, in folders or not, and for each a PNG of the same name
// in the same folders, whose levels are numbers of classes; 255 (65535 of 16 bits) is ignored. "a"
// may also be "a_mask" there, or "a.jpg", with the extension of its picture (MaskNames).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/picture_folders.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

class MaskFolder final : public SampleSource {
 public:
  // `labels[i]` is the class of level i. Where there are none every mask is read once, and the
  // classes are called "0", "1" and so on up to the highest level. Throws DataError where there is
  // no picture, no PNG in `masks`, or no mask of a picture among them.
  MaskFolder(const std::filesystem::path& pictures, const std::filesystem::path& masks,
             std::vector<std::string> labels = {}, const ReadProgress& progress = {});

  GroundTruth ground_truth() const override { return {.class_map = true}; }
  const std::vector<std::string>& labels() const override { return labels_; }
  const std::vector<std::string>& map_labels() const override { return map_labels_; }
  uint64_t size() const override { return pairs_.size(); }
  std::string Name(uint64_t index) const override { return pairs_.at(index).name; }
  std::vector<std::string> notes() const override;
  std::vector<std::filesystem::path> files() const override;
  // Throws DataError where there is no mask, a file cannot be read, the two are of different sizes,
  // or a level has no label.
  Sample Get(uint64_t index) const override;

 private:
  struct Pair {
    std::string name;
    std::filesystem::path picture, mask;  // empty: there is no mask
  };
  int HighestLevel(const ReadProgress& progress) const;
  std::string WithoutMask(const Pair& pair) const;

  std::vector<Pair> pairs_;  // by name
  const std::filesystem::path masks_;
  const std::vector<std::string> labels_;  // none: there are no objects
  std::vector<std::string> map_labels_;
  FilesLeftOut left_out_;
  int64_t unused_masks_ = 0;
};

}  // namespace fovea::models::training
