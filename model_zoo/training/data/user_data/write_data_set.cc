#include "model_zoo/training/data/user_data/write_data_set.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "model_zoo/training/data/coco/coco_masks.h"
#include "model_zoo/training/data/picture_files/picture_file.h"

namespace fovea::models::training {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void WriteText(const fs::path& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text << std::flush;
  if (!stream) throw std::runtime_error("could not write " + file.string());
}

std::string FileName(uint64_t number) {
  char name[32];
  std::snprintf(name, sizeof(name), "%06llu.png", static_cast<unsigned long long>(number));
  return name;
}

// COCO counts categories, images and annotations from 1 on.
Json Categories(const SampleSource& source) {
  Json categories = Json::array();
  for (const std::string& label : source.labels()) {
    categories.push_back({{"id", categories.size() + 1}, {"name", label}});
  }
  return categories;
}

Json Annotation(const Object& object, cv::Size picture, uint64_t image_id, uint64_t id) {
  Json annotation = {{"id", id},
                     {"image_id", image_id},
                     {"category_id", object.class_index + 1},
                     {"bbox", {object.box.x, object.box.y, object.box.width, object.box.height}},
                     {"area", object.box.area()},
                     {"iscrowd", object.crowd ? 1 : 0}};
  if (object.mask) {
    const cv::Mat mask = WholeMask(object, picture);
    annotation["area"] = cv::countNonZero(mask);
    annotation["segmentation"] = {{"size", {picture.height, picture.width}},
                                  {"counts", RunLengthsOf(mask)}};
  }
  return annotation;
}

}  // namespace

void WriteDataSet(const SampleSource& source, uint64_t first, uint64_t count,
                  const fs::path& folder) {
  const GroundTruth truth = source.ground_truth();
  fs::create_directories(folder / "images");
  if (truth.class_map) fs::create_directories(folder / "masks");
  Json images = Json::array(), annotations = Json::array();
  const uint64_t end = std::min(source.size(), first + count);
  for (uint64_t i = first; i < end; ++i) {
    const Sample sample = source.Get(i);
    const std::string name = FileName(i - first);
    const cv::Size size = sample.rgb.size();
    WritePng(folder / "images" / name, sample.rgb);
    if (truth.class_map) WritePng(folder / "masks" / name, sample.class_map);
    const uint64_t image_id = images.size() + 1;
    images.push_back(
        {{"id", image_id}, {"file_name", name}, {"width", size.width}, {"height", size.height}});
    for (const Object& object : sample.objects) {
      annotations.push_back(Annotation(object, size, image_id, annotations.size() + 1));
    }
  }
  if (truth.boxes) {
    const Json whole = {
        {"images", images}, {"categories", Categories(source)}, {"annotations", annotations}};
    WriteText(folder / "annotations.json", whole.dump() + "\n");
  }
  if (truth.class_map) {
    std::string labels;
    for (const std::string& label : source.map_labels()) labels += label + "\n";
    WriteText(folder / "labels.txt", labels);
  }
}

}  // namespace fovea::models::training
