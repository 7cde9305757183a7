#include "model_zoo/training/data/sample.h"

#include <opencv2/imgproc.hpp>

#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

cv::Mat WholeMask(const Object& object, cv::Size picture) {
  cv::Mat whole = cv::Mat::zeros(picture, CV_8U);
  if (object.mask) object.mask().copyTo(whole(object.mask_area));
  return whole;
}

void CheckMasks(const std::string& name, int64_t masks, int64_t pixels) {
  if (masks * pixels <= kMaxMaskBytes) return;
  throw DataError("the picture " + name + ": the masks of its " + std::to_string(masks) +
                  " objects take more than " + std::to_string(kMaxMaskBytes >> 20) +
                  " MiB at the model's size");
}

bool SetMaskOfPixels(const cv::Mat& part, cv::Point corner, Object& object) {
  const cv::Rect area = cv::boundingRect(part);
  if (area.empty()) return false;
  const cv::Mat mask = part(area) != 0;  // of its own: not the whole part is kept
  object.mask = [mask] { return mask; };
  object.mask_area = area + corner;
  object.box = cv::Rect2f(object.mask_area);
  return true;
}

}  // namespace fovea::models::training
