#include "client/cpp/cli/curve_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/cli/text.h"
#include "server/imaging/drawing/picture_canvas.h"

namespace fovea::client {
namespace {

// In units; an SVG's of the page's width, a picture's kScale pixels.
constexpr int kWidth = 640, kPlotHeight = 280, kScale = 2;
constexpr int kLeft = 62, kRight = 16, kTop = 34, kBottom = 46, kLegendRow = 20;
constexpr double kTextSize = 12, kTitleSize = 14;
constexpr double kLeastTickDistance = 34;

// What is drawn with: a curve's colour, or these.
constexpr int kInk = -1, kFaint = -2;

using Place = PictureCanvas::Place;
using Anchor = PictureCanvas::Anchor;

// What a chart is drawn onto.
class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void Line(const Place& from, const Place& to, double width, int colour) = 0;
  virtual void Dot(const Place& at, double radius, int colour) = 0;
  virtual void Text(const Place& at, Anchor anchor, const std::string& text, double size) = 0;
};

class SvgCanvas final : public Canvas {
 public:
  void Line(const Place& from, const Place& to, double width, int colour) override {
    absl::StrAppendFormat(&svg_,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                          "stroke-width=\"%.1f\"/>",
                          from.x, from.y, to.x, to.y, ColourOf(colour), width);
  }
  void Dot(const Place& at, double radius, int colour) override {
    absl::StrAppendFormat(&svg_, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>", at.x,
                          at.y, radius, ColourOf(colour));
  }
  void Text(const Place& at, Anchor anchor, const std::string& text, double size) override {
    const char* const where = anchor == Anchor::kStart    ? "start"
                              : anchor == Anchor::kMiddle ? "middle"
                                                          : "end";
    absl::StrAppendFormat(&svg_,
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" "
                          "style=\"font-size: %.0fpx\">%s</text>",
                          at.x, at.y, where, size, HtmlText(text));
  }
  const std::string& svg() const { return svg_; }

 private:
  static std::string ColourOf(int colour) {
    if (colour == kInk) return "var(--ink)";
    if (colour == kFaint) return "var(--line)";
    return absl::StrCat("var(--curve-", colour, ")");
  }
  std::string svg_;
};

// Okabe and Ito's colours, which everybody can tell apart, on white.
constexpr std::array<Rgb, kCurveColours> kColours = {{{0, 114, 178},
                                                      {213, 94, 0},
                                                      {0, 158, 115},
                                                      {204, 121, 167},
                                                      {86, 180, 233},
                                                      {230, 159, 0},
                                                      {60, 60, 60},
                                                      {150, 130, 20}}};

// Onto a part of a picture.
class PartOfPicture final : public Canvas {
 public:
  PartOfPicture(PictureCanvas& picture, const Place& corner) : picture_(picture), corner_(corner) {}

  void Line(const Place& from, const Place& to, double width, int colour) override {
    picture_.Line(Moved(from), Moved(to), width, ColourOf(colour));
  }
  void Dot(const Place& at, double radius, int colour) override {
    picture_.Dot(Moved(at), radius, ColourOf(colour));
  }
  void Text(const Place& at, Anchor anchor, const std::string& text, double size) override {
    picture_.Text(Moved(at), anchor, text, size, ColourOf(kInk));
  }

 private:
  Place Moved(const Place& place) const { return {place.x + corner_.x, place.y + corner_.y}; }
  static Rgb ColourOf(int colour) {
    if (colour == kInk) return {50, 50, 50};
    if (colour == kFaint) return {222, 222, 222};
    return kColours[static_cast<size_t>(colour)];
  }
  PictureCanvas& picture_;
  const Place corner_;
};

bool IsShown(const std::optional<CurveChart::Point>& point) {
  return point && point->value > 0 && std::isfinite(point->value);
}

// From numbers to places within the axes.
struct Scale {
  double low = 0, high = 1;    // logarithms, or numbers of ticks
  double begin = 0, size = 1;  // in units; below zero: upwards

  double At(double number) const { return begin + size * (number - low) / (high - low); }
};

Scale XScale(const CurveChart& chart, const std::vector<double>& places) {
  Scale scale{.begin = kLeft, .size = kWidth - kLeft - kRight};
  if (!places.empty()) {
    scale.low = *std::min_element(places.begin(), places.end());
    scale.high = *std::max_element(places.begin(), places.end());
  }
  const double margin = chart.even_places ? 0.5 : 0.06 * (scale.high - scale.low);
  scale.low -= std::max(margin, 1e-3);
  scale.high += std::max(margin, 1e-3);
  return scale;
}

Scale YScale(const CurveChart& chart) {
  Scale scale{
      .low = INFINITY, .high = -INFINITY, .begin = kTop + kPlotHeight, .size = -kPlotHeight};
  for (const CurveChart::Curve& curve : chart.curves) {
    for (const auto& point : curve.points) {
      if (!IsShown(point)) continue;
      for (const double number : {point->lower, point->value, point->upper}) {
        if (!(number > 0)) continue;
        scale.low = std::min(scale.low, std::log10(number));
        scale.high = std::max(scale.high, std::log10(number));
      }
    }
  }
  if (!(scale.low <= scale.high)) scale.low = scale.high = 0;  // nothing is shown
  const double margin = std::max(0.02, 0.05 * (scale.high - scale.low));
  scale.low -= margin;
  scale.high += margin;
  return scale;
}

// Round numbers: powers of ten, with their doubles and fives where there is room, and even steps
// where the scale spans little.
std::vector<double> YTicks(const Scale& scale) {
  std::vector<double> ticks;
  const double least = std::pow(10, scale.low), most = std::pow(10, scale.high);
  if (scale.high - scale.low < 0.6) {
    const double rough = (most - least) / 4;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (const double times : {5.0, 2.0, 1.0}) {
      if (times * power >= rough) step = times * power;
    }
    for (double at = step * std::ceil(least / step); at <= most; at += step) ticks.push_back(at);
    return ticks;
  }
  for (int power = static_cast<int>(std::floor(scale.low)); power <= scale.high; ++power) {
    for (const double times : {1.0, 2.0, 5.0}) {
      const double number = times * std::pow(10, power);
      if (times > 1 && scale.high - scale.low > 3) continue;
      if (number >= least && number <= most) ticks.push_back(number);
    }
  }
  return ticks;
}

// As short as it is exact enough: 0.05, 20, 2000.
std::string NumberText(double number) { return absl::StrFormat("%.4g", number); }

double HeightOf(const CurveChart& chart) {
  return kTop + kPlotHeight + kBottom + kLegendRow * static_cast<double>(chart.curves.size());
}

void DrawAxes(const CurveChart& chart, const std::vector<double>& places, const Scale& x,
              const Scale& y, Canvas& canvas) {
  const double right = kWidth - kRight, bottom = kTop + kPlotHeight;
  canvas.Text({kLeft, 20}, Anchor::kStart, chart.title, kTitleSize);
  for (const double tick : YTicks(y)) {
    const double at = y.At(std::log10(tick));
    canvas.Line({kLeft, at}, {right, at}, 1, kFaint);
    canvas.Text({kLeft - 8, at + 4}, Anchor::kEnd, NumberText(tick), kTextSize);
  }
  canvas.Line({kLeft, bottom}, {right, bottom}, 1, kInk);
  std::vector<std::pair<double, std::string>> ticks;
  for (size_t i = 0; i < places.size(); ++i)
    ticks.push_back({x.At(places[i]), chart.ticks[i].text});
  std::sort(ticks.begin(), ticks.end());
  double last = -INFINITY;
  for (const auto& [at, text] : ticks) {
    canvas.Line({at, bottom}, {at, bottom + 4}, 1, kInk);
    if (at - last < kLeastTickDistance) continue;
    canvas.Text({at, bottom + 19}, Anchor::kMiddle, text, kTextSize);
    last = at;
  }
  canvas.Text({(kLeft + right) / 2, bottom + 37}, Anchor::kMiddle, chart.axis, kTextSize);
}

void DrawCurve(const CurveChart::Curve& curve, const std::vector<double>& places, const Scale& x,
               const Scale& y, int colour, Canvas& canvas) {
  const auto at = [&](size_t i, double number) {
    return Place{x.At(places[i]), y.At(std::log10(number))};
  };
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& point = curve.points[i];
    if (!IsShown(point)) continue;
    if (i > 0 && IsShown(curve.points[i - 1])) {
      canvas.Line(at(i - 1, curve.points[i - 1]->value), at(i, point->value), 2, colour);
    }
    if (point->lower > 0 && point->upper > point->lower) {
      canvas.Line(at(i, point->lower), at(i, point->upper), 1, colour);
    }
    canvas.Dot(at(i, point->value), 3.5, colour);
  }
}

void Draw(const CurveChart& chart, Canvas& canvas) {
  std::vector<double> places;
  for (size_t i = 0; i < chart.ticks.size(); ++i) {
    places.push_back(chart.even_places ? static_cast<double>(i) : std::log10(chart.ticks[i].place));
  }
  const Scale x = XScale(chart, places), y = YScale(chart);
  DrawAxes(chart, places, x, y, canvas);
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const int colour = static_cast<int>(i % kCurveColours);
    DrawCurve(chart.curves[i], places, x, y, colour, canvas);
    const double row = kTop + kPlotHeight + kBottom + kLegendRow * (static_cast<double>(i) + 0.5);
    canvas.Line({kLeft, row}, {kLeft + 22, row}, 2, colour);
    canvas.Dot({kLeft + 11, row}, 3.5, colour);
    canvas.Text({kLeft + 30, row + 4}, Anchor::kStart, chart.curves[i].name, kTextSize);
  }
}

}  // namespace

std::string SvgCurves(const CurveChart& chart) {
  SvgCanvas canvas;
  Draw(chart, canvas);
  return absl::StrFormat(
      "<svg class=\"curves\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"%s\">%s</svg>",
      kWidth, HeightOf(chart), HtmlText(chart.title), canvas.svg());
}

RgbImage DrawCurves(const std::string& title, const std::vector<CurveChart>& charts) {
  constexpr int kTitle = 34, kMargin = 12;
  double row = 0;
  for (const CurveChart& chart : charts) row = std::max(row, HeightOf(chart));
  const auto rows = static_cast<int>((charts.size() + 1) / 2);
  const int height = kTitle + rows * (static_cast<int>(row) + kMargin);
  PictureCanvas picture(2 * kWidth, height, kScale);
  picture.Text({kLeft, 22}, Anchor::kStart, title, kTitleSize, {50, 50, 50});
  for (size_t i = 0; i < charts.size(); ++i) {
    PartOfPicture part(picture, {static_cast<double>(i % 2) * kWidth,
                                 kTitle + static_cast<double>(i / 2) * (row + kMargin)});
    Draw(charts[i], part);
  }
  return std::move(picture).Take();
}

}  // namespace fovea::client
