// What the generated pictures and scenes have in common: how things are coloured, posed, strewn
// about, lit and photographed. Everything is drawn from `random` in the same order whatever the
// resolution; lengths are in shorter sides of the picture (canvas.h).
#pragma once

#include <functional>
#include <opencv2/core.hpp>
#include <span>

#include "model_zoo/training/data/generated/canvas.h"
#include "model_zoo/training/data/generated/shapes.h"
#include "model_zoo/training/data/generated/texture.h"
#include "model_zoo/training/data/random.h"

namespace fovea::models::training {

// The second colour of a surface: of its own, or a shade of the first.
Colour SecondColour(Random& random, const Colour& first);

// The first of many proposals whose contrast to each of `others` is at least so much, or the best
// of them.
Colour StandingOut(std::span<const Colour> others, float min_contrast,
                   const std::function<Colour()>& propose);

// Rotated by up to 27 degrees, stretched a little and moved to its place.
Contours Posed(Random& random, const Contours& outline, float radius, cv::Point2f centre);

cv::Point2f Anywhere(Random& random, const Canvas& canvas);

// Three to six corners around a centre.
Contours Shard(Random& random, cv::Point2f centre, float radius);

struct RadiusRange {
  float smallest, largest;
};

// One of the small things that lie about: a bar, an arc or a shard.
Contours Litter(Random& random, const Canvas& canvas, const RadiusRange& shards);

// A lamp: brighter towards one side, slightly coloured. Then the shadow of something outside of the
// picture.
void Light(Random& random, Canvas& canvas);

// What a camera does: loses focus, and adds noise whose size does not depend on the resolution.
void Expose(Random& random, cv::Mat& rgb);

}  // namespace fovea::models::training
