#include "model_zoo/training/data/user_data/mask_folder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "model_zoo/training/data/picture_files/picture_file.h"
#include "model_zoo/training/data/user_data/files.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;

bool IsPngName(const fs::path& file) {
  return file.extension() == ".png" || file.extension() == ".PNG";
}

// Of the levels that are classes; -1 where there is none.
template <typename Level>
int Highest(const cv::Mat& map) {
  const int ignored = IgnoredLevel(map.type());
  int highest = -1;
  for (int y = 0; y < map.rows; ++y) {
    const Level* row = map.ptr<Level>(y);
    for (int x = 0; x < map.cols; ++x) {
      if (row[x] != ignored) highest = std::max<int>(highest, row[x]);
    }
  }
  return highest;
}

int HighestOf(const cv::Mat& map) {
  return map.type() == CV_16U ? Highest<uint16_t>(map) : Highest<uint8_t>(map);
}

}  // namespace

MaskFolder::MaskFolder(const fs::path& pictures, const fs::path& masks,
                       std::vector<std::string> labels)
    : map_labels_(std::move(labels)) {
  std::map<std::string, fs::path> mask_of;
  for (const fs::path& mask : OrThrow(FilesBelow(masks, IsPngName))) {
    mask_of[mask.lexically_relative(masks).replace_extension().generic_string()] = mask;
  }
  for (const fs::path& picture : OrThrow(FilesBelow(pictures, IsPictureName))) {
    const fs::path name = picture.lexically_relative(pictures);
    const auto mask = mask_of.find(fs::path(name).replace_extension().generic_string());
    if (mask == mask_of.end()) {
      throw DataError("the picture " + picture.string() + " has no mask " +
                      (masks / fs::path(name).replace_extension(".png")).string());
    }
    pairs_.push_back({name.generic_string(), picture, mask->second});
  }
  if (pairs_.empty()) throw DataError("there is no picture in " + pictures.string());
  unused_masks_ = std::max<int64_t>(0, std::ssize(mask_of) - std::ssize(pairs_));
  if (!map_labels_.empty()) return;
  for (int level = 0, highest = HighestLevel(); level <= highest; ++level) {
    map_labels_.push_back(std::to_string(level));
  }
  if (map_labels_.empty()) {
    throw DataError("the masks in " + masks.string() + " hold nothing but ignored pixels");
  }
}

int MaskFolder::HighestLevel() const {
  int highest = -1;
  for (const Pair& pair : pairs_) highest = std::max(highest, HighestOf(ReadLevels(pair.mask)));
  return highest;
}

std::vector<std::string> MaskFolder::notes() const {
  if (unused_masks_ == 0) return {};
  return {std::to_string(unused_masks_) + " masks without a picture are not used"};
}

std::vector<fs::path> MaskFolder::files() const {
  std::vector<fs::path> files;
  for (const Pair& pair : pairs_) files.insert(files.end(), {pair.picture, pair.mask});
  return files;
}

Sample MaskFolder::Get(uint64_t index) const {
  const Pair& pair = pairs_.at(index);
  Sample sample{.rgb = ReadPicture(pair.picture)};
  sample.class_map = ReadLevels(pair.mask);
  if (sample.class_map.size() != sample.rgb.size()) {
    throw DataError("the mask " + pair.mask.string() + " is of another size than its picture " +
                    pair.picture.string());
  }
  const int highest = HighestOf(sample.class_map);
  if (highest >= std::ssize(map_labels_)) {
    throw DataError("the mask " + pair.mask.string() + " has the level " + std::to_string(highest) +
                    ", and there are " + std::to_string(map_labels_.size()) + " labels");
  }
  return sample;
}

}  // namespace fovea::models::training
