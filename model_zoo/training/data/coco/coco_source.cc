#include "model_zoo/training/data/coco/coco_source.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/exif.h"
#include "model_zoo/quoted.h"
#include "model_zoo/training/data/picture_files/exif_orientation.h"
#include "model_zoo/training/data/picture_files/picture_file.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;

std::string SizeText(cv::Size size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

// Returns a name as a relative path, then without its first part, without its first two, ...
std::vector<std::string> EndsOf(std::string name) {
  std::ranges::replace(name, '\\', '/');
  // Label Studio's names of files on its machine: /data/local-files/?d=photos/a.jpg
  constexpr std::string_view kFile = "?d=";
  if (const size_t file = name.find(kFile); file != std::string::npos) {
    name.erase(0, file + kFile.size());
  }
  std::vector<std::string> ends;
  fs::path end;
  const fs::path path = fs::path(name).relative_path();
  for (auto part = path.end(); part != path.begin();) {
    --part;
    if (*part == "..") break;
    end = end.empty() ? *part : *part / end;
    if (!part->empty() && *part != ".") ends.push_back(end.string());
  }
  std::ranges::reverse(ends);
  return ends;
}

std::string NamesOf(const std::vector<fs::path>& folders) {
  std::string names;
  for (const fs::path& folder : folders) names += (names.empty() ? "" : ", ") + folder.string();
  return names;
}

// Returns the file of each picture; an empty path where there is none.
std::vector<fs::path> Found(const std::vector<CocoPicture>& pictures,
                            const std::vector<fs::path>& folders) {
  struct Place {
    fs::path file;
    bool by_end = false;  // of its name
  };
  const auto place_of = [&folders](const std::string& name) -> Place {
    const std::vector<std::string> ends = EndsOf(name);
    for (size_t i = 0; i < ends.size(); ++i) {
      for (const fs::path& folder : folders) {
        std::error_code none;
        if (fs::is_regular_file(folder / ends[i], none)) return {folder / ends[i], i > 0};
      }
    }
    return {};
  };
  std::vector<Place> places;
  std::map<fs::path, int> uses;
  for (const CocoPicture& picture : pictures) {
    places.push_back(place_of(picture.file_name));
    ++uses[places.back().file];
  }
  std::vector<fs::path> files;
  for (Place& place : places) {
    const bool another = place.by_end && uses[place.file] > 1;
    files.push_back(another ? fs::path() : std::move(place.file));
  }
  return files;
}

std::shared_ptr<const CocoFile> Read(const fs::path& annotations,
                                     const std::vector<std::string>& labels,
                                     const ReadProgress& progress) {
  CocoFile file = ReadCocoFile(annotations, progress);
  try {
    if (!labels.empty()) file.Relabel(labels);
  } catch (const DataError& error) {
    throw DataError("the annotations " + annotations.string() + ": " + error.what());
  }
  return std::make_shared<const CocoFile>(std::move(file));
}

}  // namespace

CocoSource::CocoSource(const fs::path& annotations, const std::vector<fs::path>& folders,
                       const std::vector<std::string>& labels, const ReadProgress& progress)
    : file_(Read(annotations, labels, progress)),
      annotations_(annotations),
      pictures_(Found(file_->pictures, folders)) {
  if (file_->pictures.empty()) {
    throw DataError("the annotations " + annotations.string() + " are of no picture");
  }
  if (std::ranges::all_of(pictures_, &fs::path::empty)) {
    throw DataError("the annotations " + annotations.string() + " are of the picture " +
                    Quoted(file_->pictures.front().file_name) + ", which is in none of " +
                    NamesOf(folders) + ", and no other one is either: say where with --images");
  }
  for (const CocoPicture& picture : file_->pictures) {
    for (const CocoAnnotation& annotation : picture.annotations) {
      if (annotation.crowd) continue;
      ++(annotation.has_mask()        ? with_mask_
         : annotation.without_outline ? without_outline_
                                      : without_mask_);
    }
  }
  has_masks_ = with_mask_ > 0 && without_mask_ == 0;
}

std::vector<std::string> CocoSource::notes() const {
  std::vector<std::string> notes;
  for (const std::string& name : file_->supercategories) {
    notes.push_back("the category " + Quoted(name) +
                    " is no class: no object is of it, and other categories are kinds of it");
  }
  if (file_->without_area > 0) {
    notes.push_back(std::to_string(file_->without_area) +
                    " boxes without area inside of their picture are left out, the first that of " +
                    file_->first_without_area);
  }
  if (without_outline_ > 0) {
    notes.push_back(
        std::to_string(without_outline_) +
        (has_masks_ ? " objects whose polygons have fewer than three corners are left out"
                    : " objects have polygons of fewer than three corners: their boxes count"));
  }
  if (with_mask_ > 0 && without_mask_ > 0) {
    notes.push_back("masks are not used: " + std::to_string(without_mask_) + " of " +
                    std::to_string(with_mask_ + without_mask_) + " objects have none");
  }
  return notes;
}

std::vector<fs::path> CocoSource::files() const {
  std::vector<fs::path> files = {annotations_};
  std::ranges::copy_if(pictures_, std::back_inserter(files),
                       [](const fs::path& file) { return !file.empty(); });
  return files;
}

int64_t CocoSource::MaskCount(uint64_t index) const {
  if (!has_masks_) return 0;
  return std::ranges::count_if(file_->pictures.at(index).annotations, [](const auto& annotation) {
    return annotation.has_mask() && !annotation.crowd;
  });
}

Sample CocoSource::Get(uint64_t index) const {
  const CocoPicture& picture = file_->pictures.at(index);
  const fs::path& file = pictures_[index];
  if (file.empty()) throw DataError("the picture " + Quoted(picture.file_name) + " is not there");
  Sample sample{.rgb = ReadPicture(file)};
  const cv::Size size = sample.rgb.size(), stored(size.height, size.width);
  // EXIF's, where the annotations are of the stored pixels.
  int orientation = 1;
  if (!picture.size.empty() && size != picture.size) {
    if (picture.size == stored) orientation = OrientationOf(file);
    if (!TurnOf(orientation).transposed) {
      throw DataError("the picture " + file.string() + " has " + SizeText(size) +
                      " pixels, its annotations say " + SizeText(picture.size));
    }
    if (file_->upright_annotations) orientation = 1;
  }
  for (const CocoAnnotation& annotation : picture.annotations) {
    if (has_masks_ && annotation.without_outline) continue;
    const cv::Size annotated = orientation == 1 ? size : stored;
    Object object{.class_index = annotation.class_index};
    object.crowd = annotation.crowd;
    const bool masked = annotation.has_mask() && (has_masks_ || annotation.box.empty());
    if (masked && !SetMaskOfAnnotation({file_, &annotation}, annotated, object, orientation)) {
      continue;
    }
    if (!has_masks_) object.mask_area = {}, object.mask = nullptr;
    if (!annotation.box.empty()) object.box = UprightBox(annotation.box, annotated, orientation);
    object.box &= cv::Rect2f(0, 0, size.width, size.height);
    if (object.box.empty()) continue;
    sample.objects.push_back(std::move(object));
  }
  return sample;
}

}  // namespace fovea::models::training
