// A sample as a model is shown it: brought to size, and for training flipped, scaled, cut and
// coloured by chance. Boxes, masks and class maps follow the pixels.
#pragma once

#include <opencv2/core.hpp>

#include "model_zoo/training/data/random.h"
#include "model_zoo/training/data/sample.h"

namespace fovea::models::training {

// A sample as large as the image that a model takes: the picture is in its upper left corner, the
// rest is black and ignored by the class map.
struct PlacedSample {
  Sample sample;
  cv::Size content;  // of the picture
};

// How a picture of another shape comes into the image. Both keep its aspect ratio.
enum class Framing {
  kWhole,   // as large as fits: as detectors and segmenters are served (ResizeMode::kFit)
  kFilled,  // as small as fills the image, the middle of it: as classifiers are served
            // (ResizeMode::kShortestEdge, with a crop_fraction of 1)
};

struct AugmentationOptions {
  float flip = 0.5f;  // how often, left for right
  // The picture's scale, in that of the framing. What is larger than the image is cut at a place
  // drawn by chance; what is smaller leaves room.
  float min_scale = 0.75f, max_scale = 1.25f;
  // Brightness, contrast and saturation: times 1 - colour to 1 + colour. In [0, 1).
  float colour = 0.2f;
  // An object of whose box a smaller share is left is dropped; the class map keeps it.
  float min_left = 0.2f;
};

// Pixels are averaged when shrinking and interpolated when enlarging; class maps and masks take the
// source pixel that lies under the middle of theirs, so that they agree with each other. The box of
// an object of which a part is cut off is that of what is left of its mask, where it has one.
// Objects of whose box less than a pixel across is left are dropped.
PlacedSample Placed(const Sample& sample, cv::Size image, Framing framing);

// A function of its arguments and of what `random` gives.
PlacedSample Augmented(const Sample& sample, cv::Size image, Framing framing,
                       const AugmentationOptions& options, Random& random);

}  // namespace fovea::models::training
