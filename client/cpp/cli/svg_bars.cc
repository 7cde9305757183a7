#include "client/cpp/cli/svg_bars.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

constexpr int kWidth = 760, kNames = 210, kTexts = 150, kBars = kWidth - kNames - kTexts;
constexpr int kRow = 30, kBarHeight = 18, kLegendHeight = 24, kMargin = 6;

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>", x, y, anchor,
                         HtmlText(text));
}

std::string Rectangle(double x, double y, double width, double height, size_t part) {
  return absl::StrFormat(
      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"var(--part-%d)\"/>", x, y,
      width, height, part);
}

std::string Line(double x1, double y1, double x2, double y2, const char* colour) {
  return absl::StrFormat(
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"var(--%s)\"/>", x1, y1, x2,
      y2, colour);
}

double LengthOf(const Bar& bar) {
  double length = 0;
  for (const double part : bar.parts) length += part;
  return length;
}

std::string Legend(const std::vector<std::string>& parts) {
  std::string svg;
  double x = kNames;
  for (size_t part = 0; part < parts.size(); ++part) {
    absl::StrAppend(&svg, Rectangle(x, kMargin, 12, 12, part),
                    Text(x + 17, kMargin + 10.5, "start", parts[part]));
    x += 17 + 8 * static_cast<double>(parts[part].size()) + 14;
  }
  return svg;
}

}  // namespace

std::string SvgBars(const BarChart& chart) {
  double longest = chart.mark.value_or(0);
  for (const Bar& bar : chart.bars) {
    longest = std::max({longest, LengthOf(bar), bar.interval ? bar.interval->upper : 0.0});
  }
  const double scale = longest > 0 ? kBars / longest : 0;
  const int top = chart.parts.size() > 1 ? kLegendHeight : 0;
  const int height = top + kRow * static_cast<int>(chart.bars.size()) + kMargin;
  std::string svg = absl::StrFormat("<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">",
                                    kWidth, height, HtmlText(chart.title));
  if (chart.parts.size() > 1) svg += Legend(chart.parts);
  for (size_t row = 0; row < chart.bars.size(); ++row) {
    const Bar& bar = chart.bars[row];
    const double y = top + kRow * static_cast<double>(row) + (kRow - kBarHeight) / 2.0;
    const double middle = y + kBarHeight / 2.0, baseline = middle + 4.5;
    svg += Text(kNames - 10, baseline, "end", bar.name);
    double x = kNames;
    for (size_t part = 0; part < bar.parts.size(); ++part) {
      svg += Rectangle(x, y, bar.parts[part] * scale, kBarHeight, part);
      x += bar.parts[part] * scale;
    }
    double end = x;
    if (bar.interval) {
      const double lower = kNames + bar.interval->lower * scale;
      const double upper = kNames + bar.interval->upper * scale;
      absl::StrAppend(&svg, Line(lower, middle, upper, middle, "ink"),
                      Line(lower, middle - 5, lower, middle + 5, "ink"),
                      Line(upper, middle - 5, upper, middle + 5, "ink"));
      end = std::max(end, upper);
    }
    svg += Text(end + 8, baseline, "start", bar.text);
  }
  if (chart.mark) {
    const double x = kNames + *chart.mark * scale;
    svg += Line(x, top, x, height - kMargin, "line");
  }
  return svg + "</svg>";
}

}  // namespace fovea::client
