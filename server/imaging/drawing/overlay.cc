#include "server/imaging/drawing/overlay.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <numeric>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/class_colour.h"
#include "server/imaging/drawing/opencv_errors.h"

namespace fovea {
namespace {

constexpr Rgb kDark = {20, 20, 20}, kLight = {255, 255, 255};

constexpr int kReadableSide = 480;  // of the shorter side, in pixels
constexpr int kMostEnlarged = 16;
// Of a class's colour over its pixels, and of their contrast that is left below it: no more, or the
// colour is no longer nearest to its own in the legend.
constexpr double kColourShare = 0.75;
constexpr double kContrastShare = 0.5;

cv::Scalar Scalar(const Rgb& colour) {
  return {double(colour[0]), double(colour[1]), double(colour[2])};
}

// What is read more easily on the colour (its luminance as ITU-R BT.601 weighs it).
Rgb TextOn(const Rgb& colour) {
  return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 128 ? kDark : kLight;
}

// `pixel` in a class's colour. The pixel gives its brightness alone (as ITU-R BT.601 weighs it): a
// hue of its own would mix with the class's into that of another class.
cv::Vec3b Painted(const cv::Vec3b& pixel, const Rgb& colour) {
  const double brightness = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
  const double ground = 128 + kContrastShare * (brightness - 128);
  cv::Vec3b painted;
  for (int c = 0; c < 3; ++c) {
    painted[c] =
        static_cast<uint8_t>(std::lround(kColourShare * colour[c] + (1 - kColourShare) * ground));
  }
  return painted;
}

// Sizes that suit a picture.
struct Pen {
  explicit Pen(const cv::Mat& picture) : Pen(std::min(picture.rows, picture.cols)) {}
  explicit Pen(int shorter_side)
      : line(std::max(2, static_cast<int>(std::lround(shorter_side / 240.0)))),
        font_scale(std::max(0.5, shorter_side / 1000.0)),
        stroke(std::max(1, static_cast<int>(std::lround(1.5 * font_scale)))) {}

  cv::Size TextSize(const std::string& text) const {
    int below = 0;
    const cv::Size size =
        cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, font_scale, stroke, &below);
    return {size.width, size.height + below};
  }
  int margin() const { return 2 * line; }

  int line;  // pixels
  double font_scale;
  int stroke;  // of a letter, pixels
};

std::string InAscii(const std::string& text) {
  std::string ascii;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) == 0x80) continue;  // of a letter whose first byte is there already
    ascii.push_back(byte >= 0x20 && byte < 0x7f ? c : '?');
  }
  return ascii;
}

std::string NameOf(int class_index, const std::string& label) {
  return label.empty() ? "class " + std::to_string(class_index) : InAscii(label);
}

cv::Mat View(const RgbImage& image) {
  return cv::Mat(image.height, image.width, CV_8UC3, image.pixels.get());
}

// A whole number, so that text can be read on a picture that is so many times as large.
int TimesEnlarged(int64_t height, int64_t width) {
  const int64_t shorter = std::min(height, width);
  const int64_t longer = std::max(height, width);
  int times = static_cast<int>(
      std::clamp<int64_t>((kReadableSide + shorter - 1) / shorter, 1, kMostEnlarged));
  while (times > 1 && times * longer > 4 * kReadableSide) --times;
  return times;
}

cv::Mat Readable(const RgbImage& image, int* times) {
  *times = TimesEnlarged(image.height, image.width);
  cv::Mat picture;
  cv::resize(View(image), picture, {}, *times, *times, cv::INTER_CUBIC);
  return picture;
}

// The object's colour over its pixels, with a line around them.
void DrawMask(cv::Mat& picture, const Pen& pen, const DrawnObject& object, int height, int width,
              int times) {
  const auto pixels = std::accumulate(object.mask.begin(), object.mask.end(), int64_t{0});
  if (pixels != int64_t{height} * width || std::ranges::min(object.mask) < 0) {
    throw std::invalid_argument("the mask is not the picture's");
  }
  cv::Mat columns = cv::Mat::zeros(width, height, CV_8U);
  uint8_t* at = columns.data;
  for (size_t run = 0; run < object.mask.size(); at += object.mask[run++]) {
    if (run % 2 == 1) std::fill_n(at, object.mask[run], uint8_t{255});
  }
  cv::Mat mask = columns.t();
  const cv::Rect box = cv::boundingRect(mask);
  if (box.empty()) return;
  const cv::Rect place(box.x * times, box.y * times, box.width * times, box.height * times);
  cv::resize(mask(box), mask, {}, times, times, cv::INTER_NEAREST);
  cv::Mat field = picture(place);
  const Rgb colour = ClassColour(object.class_index);
  for (int y = 0; y < field.rows; ++y) {
    auto* pixel = field.ptr<cv::Vec3b>(y);
    const uint8_t* inside = mask.ptr(y);
    for (int x = 0; x < field.cols; ++x) {
      if (inside[x] != 0) pixel[x] = Painted(pixel[x], colour);
    }
  }
  std::vector<std::vector<cv::Point>> outline;
  cv::findContours(mask, outline, cv::RETR_CCOMP, cv::CHAIN_APPROX_NONE);
  const auto draw = [&](const Rgb& line, int thickness) {
    cv::drawContours(picture, outline, -1, Scalar(line), thickness, cv::LINE_AA, cv::noArray(),
                     INT_MAX, place.tl());
  };
  draw(kLight, pen.line);
  draw(kDark, std::max(1, pen.line / 2));
}

// Where a box's side is drawn. However far away it is, or where it is no number, that is an int,
// and outside of every picture.
int PixelOf(float side, int times) {
  constexpr float kFar = 1e6F;
  return static_cast<int>(std::lround(std::fmin(std::fmax(side * times, -kFar), kFar)));
}

void DrawBox(cv::Mat& picture, const Pen& pen, const DrawnObject& object, int times) {
  const cv::Point first(PixelOf(object.left, times), PixelOf(object.top, times));
  const cv::Point last(std::max(first.x, PixelOf(object.right, times) - 1),
                       std::max(first.y, PixelOf(object.bottom, times) - 1));
  cv::rectangle(picture, first, last, Scalar(kDark), pen.line + 4, cv::LINE_AA);
  cv::rectangle(picture, first, last, Scalar(kLight), pen.line + 2, cv::LINE_AA);
  cv::rectangle(picture, first, last, Scalar(ClassColour(object.class_index)), pen.line,
                cv::LINE_AA);
}

// An object's label and score on a field of its colour.
struct Tag {
  std::string text;
  Rgb colour;
  cv::Rect field;  // inside of the picture, where it fits
};

// The tags of the objects, which come best first. At the box's left side, at its right one, to its
// right, to its left: above it, inside at the top, below it, inside at the bottom. A tag takes the
// first of these places that no better object's covers; where all are covered, the nearest free one
// above or below the first of them; where there is none either, the least covered (a pixel under
// two tags counts twice).
std::vector<Tag> PlaceTags(const cv::Mat& picture, const Pen& pen,
                           std::span<const DrawnObject> objects, int times) {
  std::vector<Tag> tags;
  const auto covered = [&tags](const cv::Rect& field) {
    int64_t pixels = 0;
    for (const Tag& better : tags) pixels += (field & better.field).area();
    return pixels;
  };
  for (const DrawnObject& object : objects) {
    const std::string text = NameOf(object.class_index, object.label) + " " +
                             std::to_string(std::lround(100 * object.score)) + "%";
    const cv::Size letters = pen.TextSize(text);
    const cv::Size size(letters.width + 2 * pen.margin(), letters.height + 2 * pen.margin());
    const int left = PixelOf(object.left, times), right = PixelOf(object.right, times);
    const int top = PixelOf(object.top, times), bottom = PixelOf(object.bottom, times);
    cv::Rect best;
    int64_t least = std::numeric_limits<int64_t>::max();
    const auto try_place = [&](int x, int y) {
      if (least == 0) return;
      const cv::Rect field({std::clamp(x, 0, std::max(0, picture.cols - size.width)),
                            std::clamp(y, 0, std::max(0, picture.rows - size.height))},
                           size);
      const int64_t pixels = covered(field);
      if (pixels < least) {
        least = pixels;
        best = field;
      }
    };
    const std::initializer_list<int> beside = {left, right - size.width, right, left - size.width};
    for (const int x : beside) {
      for (const int y : {top - size.height, top, bottom, bottom - size.height}) try_place(x, y);
    }
    const int first = std::clamp(top - size.height, 0, std::max(0, picture.rows - size.height));
    for (int step = size.height; step < picture.rows && least > 0; step += size.height) {
      for (const int x : beside) {
        for (const int y : {first - step, first + step}) try_place(x, y);
      }
    }
    tags.push_back({text, ClassColour(object.class_index), best});
  }
  return tags;
}

void DrawTag(cv::Mat& picture, const Pen& pen, const Tag& tag) {
  cv::rectangle(picture, tag.field, Scalar(tag.colour), cv::FILLED);
  cv::rectangle(picture, tag.field, Scalar(kDark), 1, cv::LINE_AA);
  const int letters = tag.field.height - 2 * pen.margin();
  const cv::Point baseline(tag.field.x + pen.margin(),
                           tag.field.y + pen.margin() + static_cast<int>(0.75 * letters));
  cv::putText(picture, tag.text, baseline, cv::FONT_HERSHEY_SIMPLEX, pen.font_scale,
              Scalar(TextOn(tag.colour)), pen.stroke, cv::LINE_AA);
}

int LegendRow(const Pen& pen) { return pen.TextSize("Ag").height + 3 * pen.margin(); }

struct LegendEntry {
  std::optional<Rgb> colour;  // in which the picture shows it; none: it shows it nowhere
  std::string text;
};

// As wide as the picture, and as high as the entries need.
cv::Mat Legend(const cv::Mat& picture, const Pen& pen, const std::vector<LegendEntry>& entries) {
  const int row = LegendRow(pen);
  const int side = row - 2 * pen.margin();
  std::vector<cv::Point> places;
  int x = 0, y = 0;
  for (const LegendEntry& entry : entries) {
    const int width =
        (entry.colour ? row : row / 2) + pen.TextSize(entry.text).width + 2 * pen.margin();
    if (x > 0 && x + width > picture.cols) {
      x = 0;
      y += row;
    }
    places.emplace_back(x, y);
    x += width;
  }
  cv::Mat legend(y + row, picture.cols, CV_8UC3, Scalar(kLight));
  const auto write = [&](const std::string& text, const cv::Point& place) {
    cv::putText(legend, text, {place.x, place.y + static_cast<int>(0.65 * row)},
                cv::FONT_HERSHEY_SIMPLEX, pen.font_scale, Scalar(kDark), pen.stroke, cv::LINE_AA);
  };
  if (entries.empty()) write("nothing found", {pen.margin(), 0});
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].colour) {
      write(entries[i].text, {places[i].x + pen.margin(), places[i].y});
      continue;
    }
    const cv::Rect swatch(places[i].x + pen.margin(), places[i].y + pen.margin(), side, side);
    cv::rectangle(legend, swatch, Scalar(*entries[i].colour), cv::FILLED);
    cv::rectangle(legend, swatch, Scalar(kDark), 1, cv::LINE_AA);
    write(entries[i].text, {places[i].x + row, places[i].y});
  }
  return legend;
}

RgbImage WithLegend(const cv::Mat& picture, const Pen& pen,
                    const std::vector<LegendEntry>& entries) {
  const cv::Mat legend = Legend(picture, pen, entries);
  RgbImage drawn = RgbImage::Allocate(picture.rows + legend.rows, picture.cols);
  cv::Mat whole = View(drawn);
  picture.copyTo(whole.rowRange(0, picture.rows));
  legend.copyTo(whole.rowRange(picture.rows, whole.rows));
  return drawn;
}

std::string Percent(double share) {
  return share < 0.005 ? "<1%" : std::to_string(std::lround(100 * share)) + "%";
}

// A class with its number of objects.
std::vector<LegendEntry> EntriesOf(std::span<const DrawnObject> objects) {
  std::map<int, std::pair<std::string, int>> classes;
  for (const DrawnObject& object : objects) {
    auto& [name, count] = classes[object.class_index];
    name = NameOf(object.class_index, object.label);
    ++count;
  }
  std::vector<LegendEntry> entries;
  for (const auto& [index, named] : classes) {
    entries.push_back({ClassColour(index), named.first + " x" + std::to_string(named.second)});
  }
  return entries;
}

// A class with its share of the picture.
std::vector<LegendEntry> EntriesOf(std::span<const uint16_t> class_map,
                                   const std::map<int, std::string>& labels) {
  std::map<int, int64_t> pixels;
  for (const uint16_t index : class_map) ++pixels[index];
  std::vector<std::pair<int, int64_t>> largest_first(pixels.begin(), pixels.end());
  std::ranges::stable_sort(largest_first, std::greater(), &std::pair<int, int64_t>::second);
  std::vector<LegendEntry> entries;
  for (const auto& [index, count] : largest_first) {
    const auto label = labels.find(index);
    const double share = static_cast<double>(count) / static_cast<double>(class_map.size());
    const std::string name = label == labels.end() ? "" : label->second;
    entries.push_back({IsBackground(name) ? std::nullopt : std::optional(ClassColour(index)),
                       NameOf(index, name) + " " + Percent(share)});
  }
  return entries;
}

}  // namespace

int64_t DrawingBytes(int64_t height, int64_t width, int64_t entries) {
  const int64_t times = TimesEnlarged(height, width);
  const int64_t rows = times * height, columns = times * width;
  const int64_t row = LegendRow(Pen(static_cast<int>(std::min(rows, columns))));
  const int64_t legend = std::max<int64_t>(entries, 1) * row * columns;
  // The picture and the legend, both together, and the PNG, each of three bytes a pixel; a mask
  // twice.
  return 9 * (rows * columns + legend) + 2 * rows * columns;
}

RgbImage DrawScores(const RgbImage& image, std::span<const DrawnClass> classes) try {
  int times = 1;
  const cv::Mat picture = Readable(image, &times);
  std::vector<LegendEntry> entries;
  for (const DrawnClass& one : classes) {
    // Without colours: there are eight, and nothing in the picture has one.
    entries.push_back(
        {std::nullopt, NameOf(one.class_index, one.label) + " " + Percent(one.confidence)});
  }
  return WithLegend(picture, Pen(picture), entries);
} catch (const cv::Exception& error) {
  ThrowAsStandard(error);
}

RgbImage DrawObjects(const RgbImage& image, std::span<const DrawnObject> objects) try {
  int times = 1;
  cv::Mat picture = Readable(image, &times);
  const Pen pen(picture);
  // The best are drawn last, on top; all boxes above all masks, all tags above all boxes.
  for (auto one = objects.rbegin(); one != objects.rend(); ++one) {
    if (!one->mask.empty()) DrawMask(picture, pen, *one, image.height, image.width, times);
  }
  for (auto one = objects.rbegin(); one != objects.rend(); ++one) {
    DrawBox(picture, pen, *one, times);
  }
  const std::vector<Tag> tags = PlaceTags(picture, pen, objects, times);
  for (auto one = tags.rbegin(); one != tags.rend(); ++one) DrawTag(picture, pen, *one);
  return WithLegend(picture, pen, EntriesOf(objects));
} catch (const cv::Exception& error) {
  ThrowAsStandard(error);
}

RgbImage DrawClasses(const RgbImage& image, std::span<const uint16_t> class_map,
                     const std::map<int, std::string>& labels) try {
  int times = 1;
  cv::Mat picture = Readable(image, &times);
  const Pen pen(picture);
  const auto class_at = [&](int y, int x) {
    return class_map[static_cast<int64_t>(y / times) * image.width + x / times];
  };
  std::set<int> unpainted;
  for (const auto& [index, label] : labels) {
    if (IsBackground(label)) unpainted.insert(index);
  }
  // Borders are what lies within a line's width of another class, to the right or below, and on all
  // sides of what stays as it was.
  const int line = std::max(1, pen.line / 2);
  for (int y = 0; y < picture.rows; ++y) {
    auto* pixel = picture.ptr<cv::Vec3b>(y);
    for (int x = 0; x < picture.cols; ++x) {
      const uint16_t own = class_at(y, x);
      if (unpainted.contains(own)) continue;
      const bool border = class_at(std::min(y + line, picture.rows - 1), x) != own ||
                          class_at(y, std::min(x + line, picture.cols - 1)) != own ||
                          unpainted.contains(class_at(std::max(y - line, 0), x)) ||
                          unpainted.contains(class_at(y, std::max(x - line, 0)));
      pixel[x] = Painted(pixel[x], border ? kDark : ClassColour(own));
    }
  }
  return WithLegend(picture, pen, EntriesOf(class_map, labels));
} catch (const cv::Exception& error) {
  ThrowAsStandard(error);
}

}  // namespace fovea
