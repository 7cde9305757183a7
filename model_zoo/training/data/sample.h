// One picture and what is true of it: what a model learns from and is measured by.
#pragma once

#include <cstdint>
#include <functional>
#include <opencv2/core.hpp>
#include <optional>
#include <vector>

namespace fovea::models::training {

// Coordinates are COCO's: the origin is the upper left corner of the upper left pixel, the pixel in
// column x covers [x, x + 1), and a box ends where its last pixel ends.
struct Object {
  cv::Rect2f box;           // of what can be seen of the object; never empty, inside of the picture
  int64_t class_index = 0;  // a place in SampleSource::labels()

  // Where pixels of the picture show the object, and which of them do: uint8 [mask_area.height,
  // mask_area.width], 255 or 0. Empty, both of them, where the source has no masks. Decoded anew at
  // each call, which is thread-safe: hundreds of objects on a large picture would take gigabytes if
  // all of their masks were kept.
  cv::Rect mask_area;
  std::function<cv::Mat()> mask;

  // A region of many objects that nobody told apart (COCO's "iscrowd"): not to be found as one, and
  // finding something there is no mistake.
  bool crowd = false;
};

struct Sample {
  cv::Mat rgb;  // uint8 [height, width, 3]

  // Which of these are filled is the source's GroundTruth.
  std::optional<int64_t> class_index;  // a place in SampleSource::labels()
  std::vector<Object> objects;         // of generated scenes back to front
  // uint8 [height, width], or uint16 where there are more than 255 classes: a place in
  // SampleSource::map_labels(), or IgnoredLevel(type) where nothing is known.
  cv::Mat class_map;
};

// Of a class map of that OpenCV type.
constexpr int IgnoredLevel(int type) { return type == CV_16U ? 65535 : 255; }

// The pixels of `object` in a picture of that size: uint8, 255 or 0. Of an object without a mask
// nothing.
cv::Mat WholeMask(const Object& object, cv::Size picture);

// Sets the object's mask, which is kept, from the pixels of a part of its picture that begins at
// `corner` (uint8, not 0: the object's), as small as it can be, and its box around it. False, and
// nothing changes, where no pixel is set.
bool SetMaskOfPixels(const cv::Mat& part, cv::Point corner, Object& object);

}  // namespace fovea::models::training
