#include "model_zoo/training/data/picture_files/exif_orientation.h"

#include "base/exif.h"

namespace fovea::models::training {

cv::Mat Upright(const cv::Mat& stored, int orientation) {
  const UprightTurn turn = TurnOf(orientation);
  const cv::Mat turned = turn.transposed ? cv::Mat(stored.t()) : stored;
  if (!turn.mirrored && !turn.upside_down) return turned;
  cv::Mat upright;
  // OpenCV's 1 mirrors left and right, 0 top and bottom, -1 both.
  cv::flip(turned, upright, turn.mirrored && turn.upside_down ? -1 : turn.mirrored ? 1 : 0);
  return upright;
}

cv::Rect2f UprightBox(const cv::Rect2f& box, cv::Size stored, int orientation) {
  const UprightTurn turn = TurnOf(orientation);
  cv::Rect2f turned = box;
  if (turn.transposed) {
    turned = {box.y, box.x, box.height, box.width};
    stored = {stored.height, stored.width};
  }
  const auto width = static_cast<float>(stored.width), height = static_cast<float>(stored.height);
  if (turn.mirrored) turned.x = width - turned.x - turned.width;
  if (turn.upside_down) turned.y = height - turned.y - turned.height;
  return turned;
}

}  // namespace fovea::models::training
