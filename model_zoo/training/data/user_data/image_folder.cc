#include "model_zoo/training/data/user_data/image_folder.h"

#include <algorithm>
#include <utility>

#include "model_zoo/training/data/picture_files/picture_file.h"
#include "model_zoo/training/data/user_data/files.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> ClassesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& of_class : OrThrow(FoldersIn(folder))) {
    names.push_back(of_class.filename().string());
  }
  const auto is_number = [](const std::string& name) {
    return name.size() < 10 && name.find_first_not_of("0123456789") == std::string::npos;
  };
  if (std::all_of(names.begin(), names.end(), is_number)) {
    std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return std::stol(a) < std::stol(b);
    });
  }
  return names;
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& folder) : ImageFolder(folder, ClassesIn(folder)) {}

ImageFolder::ImageFolder(const fs::path& folder, std::vector<std::string> labels)
    : labels_(std::move(labels)), pictures_(OrThrow(PicturesOfClasses(folder, labels_))) {}

std::vector<fs::path> ImageFolder::files() const {
  std::vector<fs::path> files;
  for (const ClassPicture& picture : pictures_) files.push_back(picture.file);
  return files;
}

Sample ImageFolder::Get(uint64_t index) const {
  const ClassPicture& picture = pictures_.at(index);
  return {.rgb = ReadPicture(picture.file), .class_index = picture.class_index};
}

}  // namespace fovea::models::training
