#include "model_zoo/heads/segmentation.h"

#include <c10/util/Exception.h>

namespace fovea::models {
namespace {

constexpr int64_t kAde20k = 150;
// 4 GB of logits at 800x1344, at a stride of 4.
constexpr int64_t kMostClasses = 15'000;

}  // namespace

int64_t SegmentationClasses(const HeadSite& site, const std::string& head) {
  const int64_t classes = site.num_classes > 0 ? site.num_classes : kAde20k;
  TORCH_CHECK_VALUE(classes <= kMostClasses, "the head '", head, "' tells ", kMostClasses,
                    " classes apart at most, not ", classes);
  return classes;
}

std::vector<ModelInfo::Output> SegmentationOutputs(int64_t classes) {
  return {{"logits", {classes, -1, -1}}};
}

}  // namespace fovea::models
