#include "model_zoo/training/data/coco/coco_source.h"

#include <algorithm>
#include <utility>

#include "model_zoo/quoted.h"
#include "model_zoo/training/data/picture_files/picture_file.h"

namespace fovea::models::training {
namespace {

std::string SizeText(cv::Size size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

}  // namespace

CocoSource::CocoSource(const std::filesystem::path& annotations,
                       const std::vector<std::filesystem::path>& folders)
    : file_(std::make_shared<const CocoFile>(ReadCocoFile(annotations))),
      annotations_(annotations) {
  if (file_->pictures.empty()) {
    throw DataError("the annotations " + annotations.string() + " are of no picture");
  }
  const std::string& first = file_->pictures.front().file_name;
  const auto folder = std::find_if(folders.begin(), folders.end(), [&first](const auto& tried) {
    return std::filesystem::exists(tried / first);
  });
  if (folder == folders.end()) {
    std::string tried;
    for (const auto& each : folders) tried += (tried.empty() ? "" : ", ") + each.string();
    throw DataError("the annotations " + annotations.string() + " are of the picture " +
                    Quoted(first) + ", which is in none of " + tried);
  }
  pictures_ = *folder;
  for (const CocoPicture& picture : file_->pictures) {
    for (const CocoAnnotation& annotation : picture.annotations) {
      if (!annotation.crowd) ++(annotation.has_mask() ? with_mask_ : without_mask_);
    }
  }
  has_masks_ = with_mask_ > 0 && without_mask_ == 0;
}

std::vector<std::string> CocoSource::notes() const {
  std::vector<std::string> notes;
  if (file_->without_area > 0) {
    notes.push_back(std::to_string(file_->without_area) +
                    " boxes without area inside of their picture are left out");
  }
  if (file_->without_outline > 0) {
    notes.push_back(std::to_string(file_->without_outline) +
                    " objects whose polygons have fewer than three corners are left out");
  }
  if (with_mask_ > 0 && without_mask_ > 0) {
    notes.push_back("masks are not used: " + std::to_string(without_mask_) + " of " +
                    std::to_string(with_mask_ + without_mask_) + " objects have none");
  }
  return notes;
}

std::vector<std::filesystem::path> CocoSource::files() const {
  std::vector<std::filesystem::path> files = {annotations_};
  for (const CocoPicture& picture : file_->pictures) files.push_back(pictures_ / picture.file_name);
  return files;
}

Sample CocoSource::Get(uint64_t index) const {
  const CocoPicture& picture = file_->pictures.at(index);
  const std::filesystem::path file = pictures_ / picture.file_name;
  Sample sample{.rgb = ReadPicture(file)};
  const cv::Size size = sample.rgb.size();
  if (!picture.size.empty() && size != picture.size) {
    throw DataError("the picture " + file.string() + " has " + SizeText(size) +
                    " pixels, its annotations say " + SizeText(picture.size));
  }
  for (const CocoAnnotation& annotation : picture.annotations) {
    Object object{.class_index = annotation.class_index};
    object.crowd = annotation.crowd;
    const bool masked = has_masks_ && annotation.has_mask();
    if (masked && !SetMaskOfAnnotation({file_, &annotation}, size, object)) continue;
    object.box = annotation.box & cv::Rect2f(0, 0, size.width, size.height);
    if (object.box.empty()) continue;
    sample.objects.push_back(std::move(object));
  }
  return sample;
}

}  // namespace fovea::models::training
