// What a model has found, drawn over the picture for a person to see.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "server/imaging/image.h"

namespace fovea {

// An object that was found: its box in pixels of the picture, to their outer edges. What of it lies
// outside of the picture, or is no number, is not seen.
struct DrawnObject {
  float left = 0, top = 0, right = 0, bottom = 0;
  float score = 0;  // in [0, 1]
  int class_index = 0;
  std::string label;  // empty: "class 7" is written
  // Its pixels: column by column, the lengths of runs that are not and that are of it in turn, all
  // of the picture's; empty: it has no mask.
  std::vector<int64_t> mask;
};

// A class that the picture may show.
struct DrawnClass {
  int class_index = 0;
  float confidence = 0;  // in [0, 1]
  std::string label;     // as DrawnObject's
};

// That drawing over a picture takes at most, its PNG among it, where the legend has `entries`.
int64_t DrawingBytes(int64_t height, int64_t width, int64_t entries);

// A copy of `image` with the classes below it, in their order and without colours, which nothing in
// the picture has. A small picture is enlarged, and labels are drawn, as below.
RgbImage DrawScores(const RgbImage& image, std::span<const DrawnClass> classes);

// A copy of `image` with the objects' masks and boxes, best first, each with its label and score,
// and below it a legend of their classes. Every line has a dark and a light side, so that it is
// seen on any ground. A small picture is enlarged first, to where text can be read. Labels are
// drawn in ASCII; what is not becomes '?'. Throws std::bad_alloc.
RgbImage DrawObjects(const RgbImage& image, std::span<const DrawnObject> objects);

// A copy of `image` under the colours of its pixels' classes, with a dark line between two classes
// and below it a legend with each class's share of the picture, the largest first. The background
// (IsBackground) stays as it is. `class_map`: [image.height, image.width]; `labels`: of some of the
// classes. Otherwise as above.
RgbImage DrawClasses(const RgbImage& image, std::span<const uint16_t> class_map,
                     const std::map<int, std::string>& labels);

}  // namespace fovea
