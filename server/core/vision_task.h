// What a model does with an image.
#pragma once

#include <string_view>

namespace fovea {

enum class VisionTask { kClassification, kDetection, kSegmentation };

// "classification": as metadata and metrics name it.
constexpr std::string_view VisionTaskName(VisionTask task) {
  switch (task) {
    case VisionTask::kDetection:
      return "detection";
    case VisionTask::kSegmentation:
      return "segmentation";
    case VisionTask::kClassification:
      break;
  }
  return "classification";
}

}  // namespace fovea
