#include "model_zoo/training/data/user_data/user_data.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "model_zoo/training/data/coco/coco_source.h"
#include "model_zoo/training/data/user_data/files.h"
#include "model_zoo/training/data/user_data/image_folder.h"
#include "model_zoo/training/data/user_data/mask_folder.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;

using Names = std::span<const std::string_view>;
constexpr std::string_view kTraining[] = {"train", "training"};
constexpr std::string_view kValidation[] = {"val", "valid", "validation"};

// The first of folder/NAME/below that is a folder; none: empty.
fs::path SplitFolder(const fs::path& folder, Names names, const fs::path& below = {}) {
  for (std::string_view name : names) {
    const fs::path found = below.empty() ? folder / name : folder / name / below;
    if (fs::is_directory(found)) return found;
  }
  return {};
}

TrainingData Both(std::shared_ptr<const SampleSource> training,
                  std::shared_ptr<const SampleSource> validation, double held_out) {
  if (validation == nullptr) return HoldOut(training, held_out);
  if (training->labels() != validation->labels() ||
      training->map_labels() != validation->map_labels()) {
    throw DataError("the validation's labels are others than the training's");
  }
  return {std::move(training), std::move(validation)};
}

TrainingData OpenClasses(const fs::path& folder, double held_out) {
  const fs::path training = SplitFolder(folder, kTraining);
  if (training.empty()) return HoldOut(std::make_shared<ImageFolder>(folder), held_out);
  const auto learned = std::make_shared<ImageFolder>(training);
  const fs::path validation = SplitFolder(folder, kValidation);
  return Both(
      learned,
      validation.empty() ? nullptr : std::make_shared<ImageFolder>(validation, learned->labels()),
      held_out);
}

struct MaskPlace {
  fs::path pictures, masks;
};

std::optional<MaskPlace> FindMasks(const fs::path& folder, Names names) {
  if (const fs::path images = SplitFolder(folder, names, "images"); !images.empty()) {
    return MaskPlace{images, images.parent_path() / "masks"};
  }
  if (const fs::path images = SplitFolder(folder / "images", names); !images.empty()) {
    return MaskPlace{images, folder / "masks" / images.filename()};
  }
  return std::nullopt;
}

TrainingData OpenMasks(const fs::path& folder, double held_out) {
  std::vector<std::string> labels;
  if (fs::exists(folder / "labels.txt")) labels = LinesOf(folder / "labels.txt");
  const std::optional<MaskPlace> training = FindMasks(folder, kTraining);
  const std::optional<MaskPlace> validation = FindMasks(folder, kValidation);
  if (!training) {
    return HoldOut(std::make_shared<MaskFolder>(folder / "images", folder / "masks", labels),
                   held_out);
  }
  const auto learned = std::make_shared<MaskFolder>(training->pictures, training->masks, labels);
  return Both(learned,
              validation ? std::make_shared<MaskFolder>(validation->pictures, validation->masks,
                                                        learned->map_labels())
                         : nullptr,
              held_out);
}

bool IsJson(const fs::path& file) { return file.extension() == ".json"; }

// The only one of `files`, or the only one that begins with "instances"; none: empty.
fs::path OnlyOne(std::vector<fs::path> files) {
  if (files.size() > 1) {
    std::erase_if(files, [](const fs::path& file) {
      return !file.filename().string().starts_with("instances");
    });
  }
  return files.size() == 1 ? files.front() : fs::path();
}

fs::path AnnotationsOf(const fs::path& folder, Names names) {
  if (const fs::path split = SplitFolder(folder, names); !split.empty()) {
    if (const fs::path file = OnlyOne(OrThrow(FilesIn(split, IsJson))); !file.empty()) return file;
  }
  for (const fs::path& place : {folder / "annotations", folder}) {
    if (!fs::is_directory(place)) continue;
    const fs::path file = OnlyOne(OrThrow(FilesIn(place, [names](const fs::path& candidate) {
      const std::string name = candidate.stem().string();
      return IsJson(candidate) && std::any_of(names.begin(), names.end(), [&](auto split) {
               return name.find(split) != std::string::npos;
             });
    })));
    if (!file.empty()) return file;
  }
  return {};
}

// Where the pictures may be: those of the folders that there are.
std::vector<fs::path> PictureFolders(const fs::path& folder, const fs::path& annotations,
                                     Names names) {
  const fs::path beside = annotations.parent_path();
  std::vector<fs::path> tried = {beside / "images", beside};
  for (std::string_view name : names) {
    for (const std::string& split : {std::string(name), std::string(name) + "2017"}) {
      tried.insert(tried.end(),
                   {folder / "images" / split, folder / split, folder / split / "images"});
    }
  }
  tried.insert(tried.end(), {folder / "images", folder});
  std::vector<fs::path> folders;
  for (const fs::path& each : tried) {
    const bool known = std::find(folders.begin(), folders.end(), each) != folders.end();
    if (fs::is_directory(each) && !known) folders.push_back(each);
  }
  return folders;
}

TrainingData OpenCoco(const fs::path& folder, double held_out) {
  const auto open = [&folder](const fs::path& annotations, Names names) {
    return std::make_shared<CocoSource>(annotations, PictureFolders(folder, annotations, names));
  };
  const fs::path training = AnnotationsOf(folder, kTraining);
  if (training.empty()) {
    for (const fs::path& place : {folder, folder / "annotations"}) {
      if (!fs::is_directory(place)) continue;
      const fs::path only = OnlyOne(OrThrow(FilesIn(place, IsJson)));
      if (!only.empty()) return HoldOut(open(only, kTraining), held_out);
    }
    throw DataError("there is no one .json file with COCO's annotations in " + folder.string());
  }
  const fs::path validation = AnnotationsOf(folder, kValidation);
  return Both(open(training, kTraining),
              validation.empty() ? nullptr : open(validation, kValidation), held_out);
}

}  // namespace

TrainingData OpenUserData(const fs::path& folder, Task task, double held_out) {
  if (!fs::is_directory(folder)) throw DataError("there is no folder " + folder.string());
  switch (task) {
    case Task::kDetection:
      return OpenCoco(folder, held_out);
    case Task::kSegmentation:
      return OpenMasks(folder, held_out);
    case Task::kClassification:
      break;
  }
  return OpenClasses(folder, held_out);
}

}  // namespace fovea::models::training
