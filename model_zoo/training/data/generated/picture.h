// One picture of the data set: a textured shape on a cluttered background, rotated, lit and partly
// occluded.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>

#include "model_zoo/training/data/generated/shapes.h"

namespace fovea::models::training {

// Pictures of different streams never share a random number, whatever their indices: see Random.
enum class Stream : uint32_t { kTraining = 1, kValidation = 2, kTest = 3, kExamples = 4 };

struct Picture {
  cv::Mat rgb;  // uint8 [height, width, 3]
  Shape shape;
  // uint8 [height, width]: how much of each pixel the shape covers, behind occluders as well.
  cv::Mat extent;
};

// The picture number `index` of a stream. Classes take turns: index modulo kNumShapes is the shape.
// The whole shape lies in the centre square of the picture. The same bytes on every machine for one
// version of OpenCV; for sizes of one aspect ratio the same scene.
Picture DrawPicture(uint64_t seed, Stream stream, uint64_t index, cv::Size size);

}  // namespace fovea::models::training
