// How the camera was held, as JPEG, PNG and WebP files say it.
#pragma once

#include <opencv2/core.hpp>

#include "base/bytes.h"

namespace fovea::models::training {

// EXIF's 1 to 8 of an encoded picture; 1 where it says none or what makes no sense. A walk over the
// headers: never past the end, whatever the bytes.
int JpegOrientation(Bytes file);
int WebpOrientation(Bytes file);

// The picture as it is meant to be seen.
cv::Mat Upright(const cv::Mat& stored, int orientation);

}  // namespace fovea::models::training
