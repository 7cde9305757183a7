// Detection at 800x1333, padded to 800x1344 as the detectors do; segmentation at 512x512. k-NN
// attention counts as dense attention does, and has no rows of its own.
#include "model_zoo/costs/papers.h"

namespace fovea::models {
namespace {

constexpr std::string_view kKvt = "KVT, table 4";
constexpr std::string_view kStatic = "Static keys, table 3";
constexpr std::string_view kStaticText = "Static keys, section 5.2";
constexpr std::string_view kLingloDetection = "LinGlo, table 3";
constexpr std::string_view kLingloSegmentation = "LinGlo, table 4";

}  // namespace

const std::vector<PrintedCosts>& CostsWithHeadsInPapers() {
  static const std::vector<PrintedCosts> costs = [] {
    std::vector<PrintedCosts> all;
    const auto detector = [&](PrintedCosts row, std::string_view head) {
      row.head = head;
      row.height = 800;
      row.width = 1344;
      all.push_back(row);
    };
    const auto segmenter = [&](PrintedCosts row, std::string_view head) {
      row.head = head;
      row.height = row.width = 512;
      all.push_back(row);
    };
    detector({"linglo_b0", "", kLingloDetection, "13.0"}, "retinanet");
    detector({"linglo_b1", "", kLingloDetection, "23.8"}, "retinanet");
    detector({"linglo_b2", "", kLingloDetection, "35.1"}, "retinanet");
    detector({"swin_tiny_patch4_window7_224", "", kKvt}, "mask_rcnn");
    detector({"twins_svt_base", "", kKvt}, "mask_rcnn");
    detector({"resnet50", "", kStatic, "", "376", 2}, "mask_rcnn");
    detector({"swin_tiny_patch4_window7_224", "", kStatic, "", "534", 2}, "mask_rcnn");
    detector({"caformer_s18", "", kStatic, "", "508", 2}, "mask_rcnn");
    detector({"skaformer_s18", "", kStaticText}, "mask_rcnn");
    detector({"cskaformer_s18", "", kStatic, "", "512", 2}, "mask_rcnn");
    detector({"caformer_s18", "", kStaticText}, "cascade_mask_rcnn");
    detector({"skaformer_s18", "", kStaticText}, "cascade_mask_rcnn");
    detector({"cskaformer_s18", "", kStaticText}, "cascade_mask_rcnn");
    segmenter({"linglo_b0", "", kLingloSegmentation, "7.6"}, "semantic_fpn");
    segmenter({"linglo_b1", "", kLingloSegmentation, "17.8"}, "semantic_fpn");
    segmenter({"linglo_b2", "", kLingloSegmentation, "29.1"}, "semantic_fpn");
    segmenter({"swin_tiny_patch4_window7_224", "", kKvt}, "upernet");
    segmenter({"twins_svt_base", "", kKvt}, "upernet");
    return all;
  }();
  return costs;
}

}  // namespace fovea::models
