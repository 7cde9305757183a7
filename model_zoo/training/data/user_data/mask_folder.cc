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

// Names for the mask of a picture of this name, without an extension, the best first.
std::vector<std::string> MaskNames(const fs::path& picture) {
  const std::string stem = fs::path(picture).replace_extension().generic_string();
  std::vector<std::string> names = {stem, picture.generic_string()};
  for (const char* tail : {"_mask", "-mask", "_masks", "_label", "_labels", "_seg", "_gt"}) {
    names.push_back(stem + tail);
  }
  return names;
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
                       std::vector<std::string> labels, const ReadProgress& progress)
    : masks_(masks), map_labels_(std::move(labels)) {
  std::map<std::string, fs::path> mask_of;
  for (const fs::path& mask : OrThrow(FilesBelow(masks, IsPngName))) {
    mask_of[mask.lexically_relative(masks).replace_extension().generic_string()] = mask;
  }
  if (mask_of.empty()) {
    throw DataError("there is no PNG in " + masks.string() +
                    ": a mask is one, since JPEG changes its levels");
  }
  int64_t used = 0;
  const auto is_picture = [this](const fs::path& file) {
    const bool found = IsPicture(file);
    if (!found) left_out_.Add(file);
    return found;
  };
  for (const fs::path& picture : OrThrow(FilesBelow(pictures, is_picture))) {
    const fs::path name = picture.lexically_relative(pictures);
    pairs_.push_back({name.generic_string(), picture, {}});
    for (const std::string& candidate : MaskNames(name)) {
      const auto mask = mask_of.find(candidate);
      if (mask == mask_of.end()) continue;
      pairs_.back().mask = mask->second;
      ++used;
      break;
    }
  }
  if (pairs_.empty()) throw DataError("there is no picture in " + pictures.string());
  if (used == 0) throw DataError(WithoutMask(pairs_.front()) + ", nor has any other picture");
  unused_masks_ = std::max<int64_t>(0, std::ssize(mask_of) - used);
  if (!map_labels_.empty()) return;
  for (int level = 0, highest = HighestLevel(progress); level <= highest; ++level) {
    map_labels_.push_back(std::to_string(level));
  }
  if (map_labels_.empty()) {
    throw DataError("the masks in " + masks.string() +
                    " cannot be read, or hold nothing but ignored pixels");
  }
}

int MaskFolder::HighestLevel(const ReadProgress& progress) const {
  int highest = -1;
  uint64_t done = 0;
  for (const Pair& pair : pairs_) {
    if (progress) progress("masks", done++, pairs_.size());
    try {
      if (!pair.mask.empty()) highest = std::max(highest, HighestOf(ReadLevels(pair.mask)));
    } catch (const DataError&) {
      // Get tells of it.
    }
  }
  return highest;
}

std::vector<std::string> MaskFolder::notes() const {
  std::vector<std::string> notes;
  if (const std::string line = left_out_.Line(); !line.empty()) notes.push_back(line);
  if (unused_masks_ > 0) {
    notes.push_back(unused_masks_ == 1
                        ? "1 mask without a picture is not used"
                        : std::to_string(unused_masks_) + " masks without a picture are not used");
  }
  return notes;
}

std::string MaskFolder::WithoutMask(const Pair& pair) const {
  return "the picture " + pair.picture.string() + " has no mask " +
         (masks_ / fs::path(pair.name).replace_extension(".png")).string();
}

std::vector<fs::path> MaskFolder::files() const {
  std::vector<fs::path> files;
  for (const Pair& pair : pairs_) {
    files.push_back(pair.picture);
    if (!pair.mask.empty()) files.push_back(pair.mask);
  }
  return files;
}

Sample MaskFolder::Get(uint64_t index) const {
  const Pair& pair = pairs_.at(index);
  if (pair.mask.empty()) throw DataError(WithoutMask(pair));
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
