#include "model_zoo/training/data/coco/coco_file.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <opencv2/imgproc.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/limits.h"
#include "base/run_lengths.h"
#include "model_zoo/quoted.h"
#include "model_zoo/training/data/coco/coco_entry.h"
#include "model_zoo/training/data/coco/coco_masks.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kMaxFileBytes = int64_t{2} << 30;  // COCO's largest is 0.45 GiB
constexpr int kMaxDepth = 16;
constexpr int64_t kMaxEntryValues = 1'000'000;
constexpr size_t kMaxWords = 200;  // of another library, in an error

struct RawAnnotation {
  int64_t image = 0, category = 0;
  cv::Rect2d box;
  bool without_outline = false;  // it has polygons, but none that is one
  CocoAnnotation rest;
};

// A name that leads out of the folder of the pictures is no name.
bool StaysInside(const std::string& name) {
  const fs::path path(name);
  if (name.empty() || name.find('\0') != std::string::npos || path.is_absolute()) return false;
  return std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

class Reader {
 public:
  // Of json::parse: false drops what was parsed.
  bool On(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kMaxDepth) throw DataError("it nests deeper than " + std::to_string(kMaxDepth));
    if (++values_ > kMaxEntryValues) {
      throw DataError("an entry of " + Quoted(list_) + " holds more than a million values");
    }
    if (depth == 1 && event == Event::key) {
      list_ = parsed.get<std::string>();
      place_ = 0;
    }
    if (depth != 2 || event != Event::object_end) return true;
    values_ = 0;
    ++place_;
    if (list_ == "images") AddPicture(parsed);
    if (list_ == "categories") AddCategory(parsed);
    if (list_ == "annotations") AddAnnotation(parsed);
    return false;
  }

  CocoFile Finish(const Json& whole) {
    for (const char* list : {"images", "categories", "annotations"}) {
      if (!whole.is_object() || !whole.contains(list) || !whole[list].is_array()) {
        throw DataError(std::string("it has no list \"") + list + "\"");
      }
      if (!whole[list].empty()) {
        throw DataError(std::string("its list \"") + list + "\" holds what is no object");
      }
    }
    std::map<int64_t, int64_t> classes;  // category id to place
    for (auto& [id, name] : categories_) {
      classes[id] = static_cast<int64_t>(file_.labels.size());
      file_.labels.push_back(std::move(name));
    }
    for (RawAnnotation& raw : annotations_) Resolve(classes, raw);
    return std::move(file_);
  }

 private:
  void AddPicture(const Json& object) {
    const CocoEntry entry("image", place_, object);
    CocoPicture picture{.file_name = entry.Text("file_name")};
    if (entry.Find("width") != nullptr || entry.Find("height") != nullptr) {
      picture.size = {entry.Between("width", 1, limits::kMaxImageSide),
                      entry.Between("height", 1, limits::kMaxImageSide)};
    }
    if (int64_t{picture.size.width} * picture.size.height > limits::kMaxImagePixels) {
      entry.Refuse("it has more pixels than the server takes");
    }
    if (!StaysInside(picture.file_name)) {
      entry.Refuse("its name " + Quoted(picture.file_name) + " leads out of the folder");
    }
    if (!places_.emplace(entry.id(), file_.pictures.size()).second) {
      entry.Refuse("another one has the same id");
    }
    file_.pictures.push_back(std::move(picture));
  }

  void AddCategory(const Json& object) {
    const CocoEntry entry("category", place_, object);
    const std::string name = entry.Text("name");
    if (name.empty() || name.find('\n') != std::string::npos) {
      entry.Refuse("its name is empty, or has more than one line");
    }
    if (!names_.insert(name).second) {
      entry.Refuse("another one is called " + Quoted(name) + " as well");
    }
    if (!categories_.emplace(entry.id(), name).second) {
      entry.Refuse("another one has the same id");
    }
  }

  void AddAnnotation(const Json& object) {
    const CocoEntry entry("annotation", place_, object);
    RawAnnotation raw{.image = entry.Integer("image_id"), .category = entry.Integer("category_id")};
    raw.rest.name = entry.name();
    const Json& box = entry.At("bbox");
    if (!box.is_array() || box.size() != 4) entry.Refuse("\"bbox\" is not four numbers");
    raw.box = {entry.Coordinate(box[0], "bbox"), entry.Coordinate(box[1], "bbox"),
               entry.Coordinate(box[2], "bbox"), entry.Coordinate(box[3], "bbox")};
    raw.rest.crowd = entry.Find("iscrowd") != nullptr && entry.Between("iscrowd", 0, 1) == 1;
    if (const Json* mask = entry.Find("segmentation")) ReadMask(entry, *mask, raw);
    annotations_.push_back(std::move(raw));
  }

  static void ReadMask(const CocoEntry& entry, const Json& mask, RawAnnotation& raw) {
    if (mask.is_array()) {
      for (const Json& polygon : mask) {
        if (!polygon.is_array()) entry.Refuse("\"segmentation\" holds what is no polygon");
        std::vector<float> corners;
        for (const Json& value : polygon) {
          corners.push_back(static_cast<float>(entry.Coordinate(value, "segmentation")));
        }
        const bool whole = corners.size() >= 6 && corners.size() % 2 == 0;
        if (whole) raw.rest.polygons.push_back(std::move(corners));
      }
      raw.without_outline = !mask.empty() && raw.rest.polygons.empty();
      return;
    }
    if (!mask.is_object()) entry.Refuse("\"segmentation\" is neither polygons nor run lengths");
    const CocoEntry lengths(entry, mask);
    const cv::Size size = SizeOf(lengths);
    const int64_t pixels = int64_t{size.width} * size.height;
    const Json& counts = lengths.At("counts");
    raw.rest.run_lengths_of = size;
    raw.rest.run_lengths =
        counts.is_string() ? counts.get<std::string>() : TextOf(entry, counts, pixels);
    if (!ReadRunLengths(raw.rest.run_lengths, pixels)) {
      entry.Refuse("its run lengths are not those of " + std::to_string(size.width) + " x " +
                   std::to_string(size.height) + " pixels");
    }
  }

  // Of a list of run lengths.
  static std::string TextOf(const CocoEntry& entry, const Json& counts, int64_t pixels) {
    if (!counts.is_array()) entry.Refuse("\"counts\" is neither text nor a list");
    RunLengths runs;
    bool of_mask = false;
    for (const Json& count : counts) {
      if (!count.is_number_unsigned() || count.get<uint64_t>() > static_cast<uint64_t>(pixels)) {
        entry.Refuse("\"counts\" holds what is no number of pixels");
      }
      runs.Add(of_mask, count.get<int64_t>());
      of_mask = !of_mask;
    }
    return runs.Text();
  }

  static cv::Size SizeOf(const CocoEntry& lengths) {
    const Json& size = lengths.At("size");
    const auto side = [](const Json& value) {
      return value.is_number_unsigned() && value.get<uint64_t>() > 0 &&
             value.get<uint64_t>() <= limits::kMaxImageSide;
    };
    if (!size.is_array() || size.size() != 2 || !side(size[0]) || !side(size[1])) {
      lengths.Refuse("\"size\" is not a height and a width");
    }
    const cv::Size found(size[1].get<int>(), size[0].get<int>());
    if (int64_t{found.width} * found.height > limits::kMaxImagePixels) {
      lengths.Refuse("its run lengths are of more pixels than the server takes");
    }
    return found;
  }

  void Resolve(const std::map<int64_t, int64_t>& classes, RawAnnotation& raw) {
    CocoAnnotation& annotation = raw.rest;
    const auto refuse = [&annotation](const std::string& why) {
      throw DataError(annotation.name + ": " + why);
    };
    const auto place = places_.find(raw.image);
    if (place == places_.end()) refuse("there is no image " + std::to_string(raw.image));
    const auto found = classes.find(raw.category);
    if (found == classes.end()) refuse("there is no category " + std::to_string(raw.category));
    CocoPicture& picture = file_.pictures[place->second];
    if (!annotation.run_lengths.empty() && !picture.size.empty() &&
        annotation.run_lengths_of != picture.size) {
      refuse("its run lengths are of another size than its image");
    }
    annotation.class_index = found->second;
    if (!picture.size.empty()) {
      raw.box &= cv::Rect2d(0, 0, picture.size.width, picture.size.height);
    }
    annotation.box = cv::Rect2f(raw.box);
    file_.without_area += annotation.box.empty();
    file_.without_outline += raw.without_outline && !annotation.box.empty();
    if (annotation.box.empty() || raw.without_outline) return;
    picture.annotations.push_back(std::move(annotation));
  }

  std::string list_;   // that is being read
  int64_t place_ = 0;  // in it, from 1 on
  int64_t values_ = 0;
  CocoFile file_;
  std::unordered_map<int64_t, size_t> places_;  // of pictures, by their id
  std::map<int64_t, std::string> categories_;
  std::set<std::string> names_;
  std::vector<RawAnnotation> annotations_;
};

CocoFile Parse(const fs::path& file) {
  if (!fs::is_regular_file(file)) throw DataError("there is no such file");
  if (fs::file_size(file) > kMaxFileBytes) throw DataError("it is larger than 2 GiB");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw DataError("it cannot be opened");
  Reader reader;
  const Json whole =
      Json::parse(stream, [&reader](int depth, Json::parse_event_t event, Json& parsed) {
        return reader.On(depth, event, parsed);
      });
  return reader.Finish(whole);
}

}  // namespace

CocoFile ReadCocoFile(const fs::path& file) {
  const std::string where = "the annotations " + file.string() + ": ";
  try {
    return Parse(file);
  } catch (const DataError& error) {
    throw DataError(where + error.what());
  } catch (const Json::exception& error) {
    throw DataError(where + "it is no JSON: " + std::string(error.what()).substr(0, kMaxWords));
  }
}

namespace {

// The pixels that the annotation's polygons can reach.
cv::Rect Reach(const CocoAnnotation& annotation, cv::Size picture) {
  float left = 1e9f, top = 1e9f, right = -1e9f, bottom = -1e9f;
  for (const std::vector<float>& polygon : annotation.polygons) {
    for (size_t i = 0; i + 1 < polygon.size(); i += 2) {
      left = std::min(left, polygon[i]);
      right = std::max(right, polygon[i]);
      top = std::min(top, polygon[i + 1]);
      bottom = std::max(bottom, polygon[i + 1]);
    }
  }
  const cv::Rect reach(cv::Point(cvFloor(left), cvFloor(top)),
                       cv::Point(cvCeil(right), cvCeil(bottom)));
  return reach & cv::Rect({0, 0}, picture);
}

// That part of the picture.
cv::Mat Decoded(const CocoAnnotation& annotation, cv::Size picture, const cv::Rect& part) {
  if (!annotation.run_lengths.empty()) {
    return MaskOf(*ReadRunLengths(annotation.run_lengths, picture.area()), picture, part);
  }
  cv::Mat mask = cv::Mat::zeros(part.size(), CV_8U);
  for (const std::vector<float>& polygon : annotation.polygons) {
    FillPolygon(polygon, part.tl(), mask);
  }
  return mask;
}

// The smallest that holds all of the mask; empty where there is nothing of it.
cv::Rect MaskArea(const CocoAnnotation& annotation, cv::Size picture) {
  if (!annotation.run_lengths.empty()) {
    return AreaOf(*ReadRunLengths(annotation.run_lengths, picture.area()), picture);
  }
  const cv::Rect reach = Reach(annotation, picture);
  if (reach.empty()) return {};
  const cv::Rect area = cv::boundingRect(Decoded(annotation, picture, reach));
  return area.empty() ? area : area + reach.tl();
}

}  // namespace

bool SetMaskOfAnnotation(const std::shared_ptr<const CocoAnnotation>& annotation, cv::Size picture,
                         Object& object) {
  if (!annotation->run_lengths.empty() && annotation->run_lengths_of != picture) {
    throw DataError(annotation->name + ": its run lengths are of another size than its picture");
  }
  const cv::Rect area = MaskArea(*annotation, picture);
  if (area.empty()) return false;
  object.mask_area = area;
  object.mask = [annotation, picture, area] { return Decoded(*annotation, picture, area); };
  object.box = cv::Rect2f(area);
  return true;
}

}  // namespace fovea::models::training
