#include "model_zoo/training/data/user_data/image_folder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "model_zoo/quoted.h"
#include "model_zoo/training/data/picture_files/picture_file.h"
#include "model_zoo/training/data/user_data/files.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;

void SortByNumber(std::vector<std::string>& names) {
  const auto is_number = [](const std::string& name) {
    return name.size() < 10 && name.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!std::ranges::all_of(names, is_number)) return;
  std::ranges::stable_sort(names, {}, [](const std::string& name) { return std::stol(name); });
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& folder) : ImageFolder(folder, {}) {}

ImageFolder::ImageFolder(const fs::path& folder, const std::vector<std::string>& labels)
    : labels_(labels) {
  std::map<std::string, std::vector<fs::path>> classes;
  for (const fs::path& of_class : OrThrow(FoldersIn(folder))) {
    std::vector<fs::path> files = OrThrow(FilesBelow(of_class, [this](const fs::path& file) {
      const bool is_picture = IsPicture(file);
      if (!is_picture) left_out_.Add(file);
      return is_picture;
    }));
    const std::string name = of_class.filename().string();
    if (files.empty()) {
      without_pictures_.push_back(name);
    } else if (labels.empty()) {
      labels_.push_back(name);
    } else if (std::ranges::find(labels, name) == labels.end()) {
      throw DataError("the folder " + of_class.string() + ": there is no class " + Quoted(name));
    }
    if (!files.empty()) classes[name] = std::move(files);
  }
  if (classes.empty()) throw DataError("there is no folder of a class in " + folder.string());
  if (labels.empty()) SortByNumber(labels_);
  for (const auto& [name, files] : classes) {
    const int64_t index = std::ranges::find(labels_, name) - labels_.begin();
    for (const fs::path& file : files) {
      pictures_.push_back({file, file.lexically_relative(folder).generic_string(), index});
    }
  }
}

std::vector<std::string> ImageFolder::notes() const {
  std::vector<std::string> notes;
  if (const std::string line = left_out_.Line(); !line.empty()) notes.push_back(line);
  if (without_pictures_.empty()) return notes;
  std::string names;
  for (const std::string& name : without_pictures_) {
    names += (names.empty() ? "" : ", ") + Quoted(name);
  }
  notes.push_back("folders without a picture are no classes: " + names);
  return notes;
}

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
