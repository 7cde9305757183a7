// A user's data for classification: a folder of pictures for each class, called after it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/picture_folders.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

class ImageFolder final : public SampleSource {
 public:
  // The classes are the folders in `folder` that hold pictures, in the order of their names, or of
  // their numbers where every name is one. Pictures in folders below theirs count as well. Throws
  // DataError where there is no class.
  explicit ImageFolder(const std::filesystem::path& folder);
  // Of classes that are known, as those that a model was trained for: a folder for another one is
  // an error, none for one of them is not.
  ImageFolder(const std::filesystem::path& folder, const std::vector<std::string>& labels);

  GroundTruth ground_truth() const override { return {.class_index = true}; }
  const std::vector<std::string>& labels() const override { return labels_; }
  const std::vector<std::string>& map_labels() const override { return map_labels_; }
  uint64_t size() const override { return pictures_.size(); }
  // With the class: "cat/1.jpg".
  std::string Name(uint64_t index) const override { return pictures_.at(index).name; }
  std::vector<std::string> notes() const override;
  std::vector<std::filesystem::path> files() const override;
  Sample Get(uint64_t index) const override;

 private:
  std::vector<std::string> labels_;
  const std::vector<std::string> map_labels_;  // none
  std::vector<ClassPicture> pictures_;
  FilesLeftOut left_out_;
  std::vector<std::string> without_pictures_;  // names of folders
};

}  // namespace fovea::models::training
