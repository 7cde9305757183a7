#include "model_zoo/training/data/sample.h"

#include <opencv2/imgproc.hpp>

namespace fovea::models::training {

cv::Mat WholeMask(const Object& object, cv::Size picture) {
  cv::Mat whole = cv::Mat::zeros(picture, CV_8U);
  if (!object.mask.empty()) object.mask.copyTo(whole(object.mask_area));
  return whole;
}

bool SetMask(const cv::Mat& whole, Object& object) {
  const cv::Rect area = cv::boundingRect(whole);
  if (area.empty()) return false;
  object.mask_area = area;
  object.mask = whole(area) != 0;
  object.box = cv::Rect2f(area);
  return true;
}

}  // namespace fovea::models::training
