#include "model_zoo/training/data/coco/coco_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <opencv2/imgproc.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/limits.h"
#include "base/run_lengths.h"
#include "model_zoo/quoted.h"
#include "model_zoo/training/data/coco/coco_entry.h"
#include "model_zoo/training/data/coco/coco_masks.h"
#include "model_zoo/training/data/picture_files/exif_orientation.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kMaxFileBytes = int64_t{2} << 30;  // COCO's largest is 0.45 GiB
constexpr int kMaxDepth = 16;
constexpr int kMaxSide = 1'000'000;  // of a picture; a larger one than the server takes is left out
constexpr int64_t kMaxEntryValues = 1'000'000;
constexpr size_t kMaxWords = 200;  // of another library, in an error

struct RawAnnotation {
  CocoId image, category;
  std::optional<cv::Rect2d> box;  // none: the mask's
  CocoAnnotation rest;
};

struct Category {
  std::string entry;  // "category 17"
  std::string name, supercategory;
};

std::string WithoutSpacesAround(const std::string& text) {
  constexpr char kSpaces[] = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

cv::Size Transposed(cv::Size size) { return {size.height, size.width}; }

class Reader {
 public:
  explicit Reader(const ReadProgress& progress) : progress_(progress) {}

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
    if (progress_ && list_ == "annotations") progress_("annotations", place_, 0);
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
    NameClasses();
    for (RawAnnotation& raw : annotations_) Resolve(raw);
    return std::move(file_);
  }

 private:
  // Gives each category that is one its place.
  void NameClasses() {
    std::set<CocoId> shown;
    for (const RawAnnotation& raw : annotations_) shown.insert(raw.category);
    const auto has_kinds = [this](const Category& one) {
      return std::ranges::any_of(categories_, [&one](const auto& other) {
        return &other.second != &one && other.second.supercategory == one.name;
      });
    };
    std::set<std::string> names;
    for (const auto& [id, category] : categories_) {
      if (category.supercategory != category.name && !shown.contains(id) && has_kinds(category)) {
        file_.supercategories.push_back(category.name);
        continue;
      }
      if (!names.insert(category.name).second) {
        throw DataError(category.entry + ": another one is called " + Quoted(category.name) +
                        " as well");
      }
      classes_[id] = static_cast<int64_t>(file_.labels.size());
      file_.labels.push_back(category.name);
    }
  }

  void AddPicture(const Json& object) {
    const CocoEntry entry("image", place_, object);
    CocoPicture picture{.file_name = entry.Text("file_name")};
    const auto side = [&entry](const char* key) {  // 0: some writers do not know it
      return entry.Find(key) == nullptr ? 0 : entry.Between(key, 0, kMaxSide);
    };
    picture.size = {side("width"), side("height")};
    if (picture.size.empty()) picture.size = {};
    if (picture.file_name.empty() || picture.file_name.find('\0') != std::string::npos) {
      entry.Refuse("its file_name " + Quoted(picture.file_name) + " is not a valid name");
    }
    if (!places_.emplace(entry.Id("id"), file_.pictures.size()).second) {
      entry.Refuse("another one has the same id");
    }
    file_.pictures.push_back(std::move(picture));
  }

  void AddCategory(const Json& object) {
    const CocoEntry entry("category", place_, object);
    const std::string name = WithoutSpacesAround(entry.Text("name"));
    if (name.empty() || name.find('\n') != std::string::npos) {
      entry.Refuse("its name is empty, or has more than one line");
    }
    const Json* above = entry.Find("supercategory");
    Category category{entry.name(), name};
    if (above != nullptr && above->is_string()) {
      category.supercategory = WithoutSpacesAround(above->get<std::string>());
    }
    if (!categories_.emplace(entry.Id("id"), std::move(category)).second) {
      entry.Refuse("another one has the same id");
    }
  }

  void AddAnnotation(const Json& object) {
    const CocoEntry entry("annotation", place_, object);
    if (entry.Find("segments_info") != nullptr) {
      throw DataError(
          "it is of COCO's panoptic format, whose objects are in PNG files: write instances, for "
          "example by panopticapi's panoptic2detection_coco_format.py");
    }
    RawAnnotation raw{.image = entry.Id("image_id"), .category = entry.Id("category_id")};
    raw.rest.name = entry.name();
    raw.rest.crowd = entry.Flag("iscrowd");
    const Json* mask = entry.Find("segmentation");
    if (mask != nullptr && !mask->empty() && *mask != "") ReadMask(entry, *mask, raw.rest);
    ReadBox(entry, raw);
    annotations_.push_back(std::move(raw));
  }

  // Leaves the mask's box where there is none, or a number of it is not known; an empty one without
  // a mask.
  static void ReadBox(const CocoEntry& entry, RawAnnotation& raw) {
    const Json* box = entry.Find("bbox");
    if (!raw.rest.has_mask()) raw.box.emplace();
    if (box == nullptr || (box->is_array() && box->empty())) return;
    if (!box->is_array() || box->size() != 4) entry.Refuse("\"bbox\" is not four numbers");
    if (std::ranges::any_of(*box, [](const Json& side) { return side.is_null(); })) return;
    raw.box = {entry.Coordinate((*box)[0], "bbox"), entry.Coordinate((*box)[1], "bbox"),
               entry.Coordinate((*box)[2], "bbox"), entry.Coordinate((*box)[3], "bbox")};
  }

  static void ReadMask(const CocoEntry& entry, const Json& mask, CocoAnnotation& annotation) {
    if (mask.is_array()) {
      for (const Json& polygon : mask) {
        if (!polygon.is_array()) entry.Refuse("\"segmentation\" holds what is no polygon");
        std::vector<float> corners;
        for (const Json& value : polygon) {
          corners.push_back(static_cast<float>(entry.Coordinate(value, "segmentation")));
        }
        const bool whole = corners.size() >= 6 && corners.size() % 2 == 0;
        if (whole) annotation.polygons.push_back(std::move(corners));
      }
      annotation.without_outline = annotation.polygons.empty();
      return;
    }
    if (!mask.is_object()) entry.Refuse("\"segmentation\" is neither polygons nor run lengths");
    const CocoEntry lengths(entry, mask);
    const cv::Size size = SizeOf(lengths);
    const int64_t pixels = int64_t{size.width} * size.height;
    const Json& counts = lengths.At("counts");
    annotation.run_lengths_of = size;
    annotation.run_lengths =
        counts.is_string() ? counts.get<std::string>() : TextOf(entry, counts, pixels);
    if (!ReadRunLengths(annotation.run_lengths, pixels)) {
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
    return {size[1].get<int>(), size[0].get<int>()};
  }

  void Resolve(RawAnnotation& raw) {
    CocoAnnotation& annotation = raw.rest;
    const auto refuse = [&annotation](const std::string& why) {
      throw DataError(annotation.name + ": " + why);
    };
    const auto place = places_.find(raw.image);
    if (place == places_.end()) refuse("there is no image " + Named(raw.image));
    const auto found = classes_.find(raw.category);
    if (found == classes_.end()) refuse("there is no category " + Named(raw.category));
    CocoPicture& picture = file_.pictures[place->second];
    if (!annotation.run_lengths.empty() && !picture.size.empty() &&
        annotation.run_lengths_of != picture.size) {
      if (annotation.run_lengths_of != Transposed(picture.size)) {
        refuse("its run lengths are of another size than its image");
      }
      file_.upright_annotations = true;
    }
    annotation.class_index = found->second;
    if (raw.box) {
      annotation.box = Clipped(*raw.box, picture.size);
      if (annotation.box.empty()) {
        if (++file_.without_area == 1) file_.first_without_area = annotation.name;
        return;
      }
    }
    picture.annotations.push_back(std::move(annotation));
  }

  // Leaves a box alone that lies in the picture only if that is turned.
  cv::Rect2f Clipped(const cv::Rect2d& box, cv::Size picture) {
    constexpr double kRounding = 1;  // pixels
    if (picture.empty()) return cv::Rect2f(box);
    const double right = box.x + box.width, bottom = box.y + box.height;
    const auto within = [&](cv::Size size) {
      return right <= size.width + kRounding && bottom <= size.height + kRounding;
    };
    if (!within(picture) && within(Transposed(picture))) {
      file_.upright_annotations = true;
      picture = Transposed(picture);
    }
    return cv::Rect2f(box & cv::Rect2d(0, 0, picture.width, picture.height));
  }

  const ReadProgress& progress_;
  std::string list_;   // that is being read
  int64_t place_ = 0;  // in it, from 1 on
  int64_t values_ = 0;
  CocoFile file_;
  std::unordered_map<CocoId, size_t> places_;  // of pictures, by their id
  std::map<CocoId, Category> categories_;
  std::map<CocoId, int64_t> classes_;  // of categories, by their id
  std::vector<RawAnnotation> annotations_;
};

template <typename Input>
CocoFile Parse(Input&& input, const ReadProgress& progress) {
  Reader reader(progress);
  const Json whole = Json::parse(std::forward<Input>(input),
                                 [&reader](int depth, Json::parse_event_t event, Json& parsed) {
                                   return reader.On(depth, event, parsed);
                                 });
  return reader.Finish(whole);
}

std::ifstream Opened(const fs::path& file) {
  if (!fs::is_regular_file(file)) throw DataError("there is no such file");
  if (fs::file_size(file) > kMaxFileBytes) throw DataError("it is larger than 2 GiB");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw DataError("it cannot be opened");
  return stream;
}

// Replaces NaN and Infinity, which Python writes and JSON does not have, by null, but in texts.
std::string WithoutNaN(std::string_view text) {
  std::string json;
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    if (text[at] == '"') {
      while (at + length < text.size() && text[at + length] != '"') {
        length += text[at + length] == '\\' ? 2 : 1;
      }
      ++length;
    }
    std::string_view part = text.substr(at, length);
    for (const std::string_view number : {"NaN", "-Infinity", "Infinity"}) {
      if (!text.substr(at).starts_with(number)) continue;
      length = number.size();
      part = "null";
    }
    json += part;
    at += length;
  }
  return json;
}

CocoFile Read(const fs::path& file, const ReadProgress& progress) {
  std::ifstream stream = Opened(file);
  try {
    return Parse(stream, progress);
  } catch (const Json::parse_error&) {
    stream.clear();
    stream.seekg(0);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const std::string json = WithoutNaN(text);
    if (json == text) throw;
    return Parse(json, progress);
  }
}

}  // namespace

CocoFile ReadCocoFile(const fs::path& file, const ReadProgress& progress) {
  const std::string where = "the annotations " + file.string() + ": ";
  try {
    return Read(file, progress);
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

void CocoFile::Relabel(const std::vector<std::string>& known) {
  std::vector<int64_t> places;
  for (const std::string& label : labels) {
    places.push_back(std::ranges::find(known, label) - known.begin());
  }
  for (CocoPicture& picture : pictures) {
    for (CocoAnnotation& annotation : picture.annotations) {
      const std::string& label = labels[annotation.class_index];
      annotation.class_index = places[annotation.class_index];
      if (annotation.class_index < std::ssize(known)) continue;
      throw DataError(annotation.name + ": the training has no category " + Quoted(label));
    }
  }
  labels = known;
}

bool SetMaskOfAnnotation(const std::shared_ptr<const CocoAnnotation>& annotation,
                         cv::Size annotated, Object& object, int orientation) {
  if (!annotation->run_lengths.empty() && annotation->run_lengths_of != annotated) {
    throw DataError(annotation->name + ": its run lengths are of another size than its picture");
  }
  const cv::Rect area = MaskArea(*annotation, annotated);
  if (area.empty()) return false;
  object.mask_area = cv::Rect(UprightBox(cv::Rect2f(area), annotated, orientation));
  object.mask = [annotation, annotated, area, orientation] {
    return Upright(Decoded(*annotation, annotated, area), orientation);
  };
  object.box = cv::Rect2f(object.mask_area);
  return true;
}

}  // namespace fovea::models::training
