#include "model_zoo/training/data/user_data/other_tools.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/picture_folders.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxEntries = 20'000, kMaxDepth = 4;
constexpr std::streamoff kLookedAt = 1 << 16;  // bytes

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string Head(const fs::path& file, std::streamoff from = 0) {
  std::string text(kLookedAt, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(from).read(text.data(), kLookedAt);
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

// A line of YOLO's: a class and the middle and size of a box, or corners, as shares.
bool IsYoloLine(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return std::ranges::count(line, ' ') >= 4 &&
         line.find_first_not_of("0123456789.eE+- \t\r") == std::string::npos;
}

struct Files {
  std::vector<fs::path> files;
  std::set<std::string> folders;        // names
  std::set<std::string> picture_stems;  // file names without extension
};

Files FilesOf(const fs::path& folder) {
  Files found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (int entries = 0;
       !error && entry != fs::recursive_directory_iterator() && entries < kMaxEntries;
       ++entries, entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) {
      entry.disable_recursion_pending();
    } else if (entry->is_directory(error)) {
      found.folders.insert(name);
      if (entry.depth() >= kMaxDepth) entry.disable_recursion_pending();
    } else if (IsPicture(entry->path())) {
      found.picture_stems.insert(entry->path().stem().string());
    } else {
      found.files.push_back(entry->path());
    }
  }
  return found;
}

// Files that end and begin so are of that tool; the first that fits.
struct ToolFile {
  std::string_view extension;
  std::vector<std::string_view> parts;  // all of which are there
  std::string_view tool;
};

const std::vector<ToolFile>& ToolFiles() {
  static const std::vector<ToolFile> files = {
      {".yaml", {"names:", "train"}, "YOLO's text files (Ultralytics)"},
      {".yml", {"names:", "train"}, "YOLO's text files (Ultralytics)"},
      {".names", {}, "YOLO's text files (Darknet)"},
      {".labels", {}, "YOLO's text files (Darknet)"},
      {".xml", {"<annotations"}, "CVAT's XML"},
      {".xml", {"<annotation", "<object"}, "Pascal VOC's XML files"},
      {".json", {"\"shapes\"", "\"imagePath\""}, "labelme's JSON files"},
      {".json", {"\"shape_attributes\""}, "VGG Image Annotator's JSON"},
      {".json", {"\"coordinates\"", "\"label\""}, "CreateML's JSON"},
      {".json", {"\"classTitle\""}, "Supervisely's JSON files"},
      {".json", {"\"from_name\""}, "Label Studio's JSON, which it exports as COCO, too"},
      {".json", {"\"rectanglelabels\""}, "Label Studio's JSON, which it exports as COCO, too"},
      {".json", {"\"items\"", "\"categories\""}, "Datumaro's JSON"},
      {".json",
       {"\"samples\"", "\"filepath\""},
       "FiftyOne's own JSON, which it exports as COCO, too"},
      {".csv", {"xmin", "ymin"}, "boxes as CSV"},
      {".csv", {"XMin", "YMin"}, "boxes as CSV (Open Images)"},
      {".tfrecord", {}, "TensorFlow's records"},
  };
  return files;
}

// Returns nothing for a file of no tool that is known.
std::string_view ToolOf(const fs::path& file, const Files& all) {
  const std::string extension = Lower(file.extension().string());
  if (extension == ".txt") {
    const bool yolo = all.picture_stems.contains(file.stem().string()) && IsYoloLine(Head(file));
    return yolo ? "YOLO's text files" : "";
  }
  std::string head;
  for (const ToolFile& known : ToolFiles()) {
    if (known.extension != extension) continue;
    if (head.empty()) head = Head(file);
    const bool all_there = std::ranges::all_of(known.parts, [&head](std::string_view part) {
      return head.find(part) != std::string::npos;
    });
    if (all_there) return known.tool;
  }
  return "";
}

std::string MasksIn(const std::string& tool, const std::string& pictures,
                    const std::string& masks) {
  return "it looks like " + tool + ", whose folders have other names: call " + pictures +
         " images, and " + masks + " masks (docs/measuring/datasets.md, \"From other tools\")";
}

std::string FormatOfFolders(const std::set<std::string>& folders) {
  if (folders.contains("leftImg8bit")) {
    return MasksIn("Cityscapes", "leftImg8bit", "the *_labelTrainIds.png of gtFine");
  }
  if (folders.contains("JPEGImages") && folders.contains("SegmentationClass")) {
    return MasksIn("Pascal VOC", "JPEGImages", "SegmentationClass");
  }
  if (folders.contains("trainannot")) return MasksIn("CamVid", "train", "trainannot");
  return "";
}

}  // namespace

std::string FormatOfOtherTool(const fs::path& folder) {
  const Files all = FilesOf(folder);
  for (const fs::path& file : all.files) {
    const std::string_view tool = ToolOf(file, all);
    if (tool.empty()) continue;
    return "it holds " + std::string(tool) + " (" + file.filename().string() +
           "), which is not read: write COCO's JSON (docs/measuring/datasets.md, \"From other "
           "tools\")";
  }
  return FormatOfFolders(all.folders);
}

bool LooksLikeCoco(const fs::path& file) {
  std::error_code error;
  const auto size = static_cast<std::streamoff>(fs::file_size(file, error));
  if (error) return false;
  const std::string text = Head(file) + Head(file, std::max<std::streamoff>(0, size - kLookedAt));
  constexpr std::string_view kLists[] = {"\"images\"", "\"annotations\"", "\"categories\""};
  return std::ranges::count_if(
             kLists, [&text](std::string_view list) { return text.find(list) != text.npos; }) >= 2;
}

}  // namespace fovea::models::training
