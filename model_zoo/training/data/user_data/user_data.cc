#include "model_zoo/training/data/user_data/user_data.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "model_zoo/training/data/coco/coco_source.h"
#include "model_zoo/training/data/user_data/files.h"
#include "model_zoo/training/data/user_data/image_folder.h"
#include "model_zoo/training/data/user_data/mask_folder.h"
#include "model_zoo/training/data/user_data/other_tools.h"
#include "model_zoo/training/data/user_data/readable.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;

using Names = std::span<const std::string_view>;
constexpr std::string_view kTraining[] = {"train", "training"};
constexpr std::string_view kValidation[] = {"val", "valid", "validation"};

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The first of folder/NAME/below that is a folder, NAME in any case; none: empty.
fs::path SplitFolder(const fs::path& folder, Names names, const fs::path& below = {}) {
  if (!fs::is_directory(folder)) return {};
  const std::vector<fs::path> folders = OrThrow(FoldersIn(folder));
  for (std::string_view name : names) {
    for (const fs::path& split : folders) {
      if (Lower(split.filename().string()) != name) continue;
      const fs::path found = below.empty() ? split : split / below;
      if (fs::is_directory(found)) return found;
    }
  }
  return {};
}

// The two sides, before they are read; no validation: it is held out.
struct Sides {
  std::shared_ptr<const SampleSource> training, validation;
};

Sides OpenClasses(const fs::path& folder) {
  const fs::path training = SplitFolder(folder, kTraining);
  if (training.empty()) return {std::make_shared<ImageFolder>(folder), nullptr};
  const auto learned = std::make_shared<ImageFolder>(training);
  const fs::path validation = SplitFolder(folder, kValidation);
  if (validation.empty()) return {learned, nullptr};
  return {learned, std::make_shared<ImageFolder>(validation, learned->labels())};
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

Sides OpenMasks(const fs::path& folder, const ReadProgress& progress) {
  std::vector<std::string> labels;
  if (fs::exists(folder / "labels.txt")) labels = LinesOf(folder / "labels.txt");
  const std::optional<MaskPlace> training = FindMasks(folder, kTraining);
  const std::optional<MaskPlace> validation = FindMasks(folder, kValidation);
  if (!training) {
    return {std::make_shared<MaskFolder>(folder / "images", folder / "masks", labels, progress),
            nullptr};
  }
  const auto learned =
      std::make_shared<MaskFolder>(training->pictures, training->masks, labels, progress);
  if (!validation) return {learned, nullptr};
  return {learned, std::make_shared<MaskFolder>(validation->pictures, validation->masks,
                                                learned->map_labels())};
}

bool IsJson(const fs::path& file) { return Lower(file.extension().string()) == ".json"; }

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
      const std::string name = Lower(candidate.stem().string());
      return IsJson(candidate) && std::any_of(names.begin(), names.end(), [&](auto split) {
               return name.find(split) != std::string::npos;
             });
    })));
    if (!file.empty()) return file;
  }
  return {};
}

// Names of folders for the pictures of annotations, best first: what stands in the file's name,
// which of CVAT's instances_default.json is "default", then those of the split, with COCO's year
// behind them or without.
std::vector<std::string> PartsOf(const fs::path& annotations, Names names) {
  std::string stem = annotations.stem().string();
  constexpr std::string_view kInstances = "instances_";
  if (stem.starts_with(kInstances)) stem.erase(0, kInstances.size());
  std::vector<std::string> parts = {stem};
  for (std::string_view name : names) {
    parts.insert(parts.end(), {std::string(name), std::string(name) + "2017"});
  }
  return parts;
}

// Folders that may hold the pictures, the best first: those that there are.
std::vector<fs::path> PictureFolders(const fs::path& folder, const fs::path& annotations,
                                     Names names, const fs::path& images) {
  const std::vector<std::string> parts = PartsOf(annotations, names);
  std::vector<fs::path> tried;
  const auto add_parts = [&tried, &parts](const fs::path& around) {
    for (const std::string& part : parts) {
      for (const char* of_all : {"images", "data"}) tried.push_back(around / of_all / part);
      for (const char* below : {"", "images", "data"}) tried.push_back(around / part / below);
    }
  };
  if (images.empty()) {
    const fs::path beside = annotations.parent_path();
    for (const char* place : {"images", "data", ""}) tried.push_back(beside / place);
    add_parts(folder);
    for (const char* place : {"images", "data", ""}) tried.push_back(folder / place);
  } else {
    tried.push_back(images);
    add_parts(images);
  }
  std::vector<fs::path> folders;
  for (const fs::path& each : tried) {
    const fs::path place = each.has_filename() ? each : each.parent_path();
    const bool known = std::ranges::find(folders, place) != folders.end();
    if (fs::is_directory(place) && !known) folders.push_back(place);
  }
  return folders;
}

// Folders that may hold annotations of all pictures.
std::vector<fs::path> AnnotationPlaces(const fs::path& folder) {
  std::vector<fs::path> places;
  for (const fs::path& place : {folder, folder / "annotations"}) {
    if (fs::is_directory(place)) places.push_back(place);
  }
  return places;
}

Sides OpenCoco(const fs::path& data, const fs::path& images, const ReadProgress& progress) {
  if (!images.empty() && !fs::is_directory(images)) {
    throw DataError("there is no folder " + images.string());
  }
  const bool is_file = fs::is_regular_file(data);
  fs::path folder = is_file ? fs::absolute(data).parent_path() : data;
  if (is_file && folder.filename() == "annotations") folder = folder.parent_path();
  const auto open = [&](const fs::path& annotations, Names names,
                        const std::vector<std::string>& labels = {}) {
    return std::make_shared<CocoSource>(
        annotations, PictureFolders(folder, annotations, names, images), labels, progress);
  };
  if (is_file) return {open(data, {}), nullptr};
  const fs::path training = AnnotationsOf(folder, kTraining);
  if (training.empty()) {
    for (const fs::path& place : AnnotationPlaces(folder)) {
      const fs::path only = OnlyOne(OrThrow(FilesIn(place, IsJson)));
      if (!only.empty()) return {open(only, kTraining), nullptr};
    }
    const std::string format = FormatOfOtherTool(folder);
    throw DataError("there is no one .json file with COCO's annotations in " + folder.string() +
                    (format.empty() ? "" : ": " + format));
  }
  const fs::path validation = AnnotationsOf(folder, kValidation);
  const auto learned = open(training, kTraining);
  if (validation.empty()) return {learned, nullptr};
  return {learned, open(validation, kValidation, learned->labels())};
}

bool HasCoco(const fs::path& folder) {
  if (!AnnotationsOf(folder, kTraining).empty()) {
    return LooksLikeCoco(AnnotationsOf(folder, kTraining));
  }
  return std::ranges::any_of(AnnotationPlaces(folder), [](const fs::path& place) {
    return std::ranges::any_of(OrThrow(FilesIn(place, IsJson)), LooksLikeCoco);
  });
}

bool HasMasks(const fs::path& folder) {
  const auto masks =
      FindMasks(folder, kTraining).value_or(MaskPlace{folder / "images", folder / "masks"});
  return fs::is_directory(masks.pictures) && fs::is_directory(masks.masks);
}

// Throws DataError where the folders are parts of a data set by their names, and no classes.
void CheckAreClasses(const fs::path& folder) {
  constexpr std::string_view kNoClasses[] = {
      "train",  "training", "val",    "valid", "validation",  "test",    "testing",
      "images", "image",    "imgs",   "img",   "photos",      "data",    "pictures",
      "masks",  "mask",     "labels", "label", "annotations", "default", "jpegimages"};
  const fs::path training = SplitFolder(folder, kTraining);
  std::string names;
  for (const fs::path& of_class : OrThrow(FoldersIn(training.empty() ? folder : training))) {
    if (OrThrow(FilesBelow(of_class, IsPicture)).empty()) continue;
    const std::string name = of_class.filename().string();
    if (std::ranges::find(kNoClasses, Lower(name)) == std::end(kNoClasses)) return;
    names += (names.empty() ? "" : ", ") + name;
  }
  throw DataError(
      folder.string() + " holds data for no task: " +
      (names.empty() ? "there is no folder with pictures"
                     : "the folders with pictures are called " + names + ", which are no classes") +
      ". It takes a folder for each class, COCO's JSON with images/, or images/ with masks/: see "
      "docs/measuring/datasets.md");
}

Sides Open(const fs::path& data, Task task, const UserDataOptions& options) {
  if (task == Task::kDetection) return OpenCoco(data, options.images, options.progress);
  if (!options.images.empty()) throw DataError("--images goes with annotations of COCO's format");
  if (!fs::is_directory(data)) throw DataError(data.string() + " is no folder");
  if (task == Task::kClassification) return OpenClasses(data);
  if (HasMasks(data)) return OpenMasks(data, options.progress);
  const std::string format = FormatOfOtherTool(data);
  throw DataError("there are no folders images and masks in " + data.string() +
                  (format.empty() ? "" : ": " + format));
}

// Adds what people should know of a side, which `side` names for them.
void AddNotes(const SampleSource& source, const ReadableData& read, const std::string& side,
              std::vector<std::string>& notes) {
  for (const std::string& note : source.notes()) notes.push_back(side + note);
  if (!read.left_out.empty()) notes.push_back(side + LeftOutNote(read.left_out, source.size()));
}

}  // namespace

std::vector<Task> TasksOf(const fs::path& folder) {
  if (fs::is_regular_file(folder)) return {Task::kDetection};
  if (!fs::is_directory(folder)) throw DataError("there is no folder " + folder.string());
  std::vector<Task> tasks;
  if (HasCoco(folder)) tasks.push_back(Task::kDetection);
  if (HasMasks(folder)) tasks.push_back(Task::kSegmentation);
  if (!tasks.empty()) return tasks;
  if (const std::string format = FormatOfOtherTool(folder); !format.empty()) {
    throw DataError(folder.string() + ": " + format +
                    ". --task classification takes its folders for classes all the same");
  }
  CheckAreClasses(folder);
  return {Task::kClassification};
}

TrainingData OpenUserData(const fs::path& folder, Task task, const UserDataOptions& options) {
  if (!fs::exists(folder)) throw DataError("there is no folder " + folder.string());
  const Sides sides = Open(folder, task, options);
  const ReadableData training = ReadAll(sides.training, options.progress);
  CheckLearnable(training);
  if (sides.validation == nullptr) {
    TrainingData data = HoldOut(training.source, options.held_out);
    AddNotes(*sides.training, training, "", data.notes);
    return data;
  }
  const ReadableData validation = ReadAll(sides.validation, options.progress);
  if (validation.source->size() == 0) throw DataError("there is no picture for the validation");
  TrainingData data{training.source, validation.source, {}};
  AddNotes(*sides.training, training, "", data.notes);
  AddNotes(*sides.validation, validation, "validation: ", data.notes);
  return data;
}

}  // namespace fovea::models::training
