#include "client/cpp/cli/sweep_plots.h"

#include <algorithm>
#include <functional>
#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/comparison_text.h"
#include "client/cpp/cli/curve_chart.h"
#include "client/cpp/cli/report_page.h"
#include "client/cpp/cli/sweep_text.h"
#include "client/cpp/cli/text.h"
#include "server/imaging/encode_png.h"

namespace fovea::client {
namespace {

// A measure of points, and how it is told.
struct Measure {
  std::string title, explanation;
  std::function<std::optional<CurveChart::Point>(const SweptPoint&)> point;
  // Null: it has no exponent of its own.
  std::optional<FittedExponent> SweptCurve::*exponent = nullptr;
};

std::optional<CurveChart::Point> PointOf(const std::optional<Quartiles>& quartiles) {
  if (!quartiles) return std::nullopt;
  return CurveChart::Point{quartiles->lower, quartiles->median, quartiles->upper};
}

std::vector<Measure> Measures() {
  return {{"Compute, ms",
           "A batch's run: medians, with quartiles. On these scales a power is a straight line.",
           [](const SweptPoint& point) { return PointOf(point.compute_ms); },
           &SweptCurve::compute_exponent},
          {"Attention, ms", "What attention alone takes of it, without the projections around it.",
           [](const SweptPoint& point) { return PointOf(point.attention_ms); },
           &SweptCurve::attention_exponent},
          {"Peak memory, MiB", "The most that a batch's tensors held, the weights not counted.",
           [](const SweptPoint& point) {
             const double mib = static_cast<double>(point.peak_bytes) / (1 << 20);
             return CurveChart::Point{mib, mib, mib};
           },
           &SweptCurve::peak_exponent},
          {"Images/s", "By the median of compute.", [](const SweptPoint& point) {
             const double rate = point.images_per_second;
             return CurveChart::Point{rate, rate, rate};
           }}};
}

std::string AxisTitle(SweepAxis axis) {
  switch (axis) {
    case SweepAxis::kResolution:
      return "side of the picture, pixels";
    case SweepAxis::kBatch:
      return "images in a batch";
    case SweepAxis::kK:
      return "k, keys";
    default:
      return AxisText(axis);
  }
}

CurveChart ChartOf(const Sweep& sweep, const Measure& measure) {
  CurveChart chart{
      .title = measure.title, .axis = AxisTitle(sweep.over), .even_places = sweep.places.empty()};
  for (size_t i = 0; i < sweep.values.size(); ++i) {
    chart.ticks.push_back(
        {.place = sweep.places.empty() ? 1 : sweep.places[i], .text = sweep.values[i]});
  }
  for (const SweptCurve& curve : sweep.curves) {
    CurveChart::Curve drawn{.name = CurveText(curve, sweep)};
    if (measure.exponent != nullptr && curve.*measure.exponent) {
      absl::StrAppend(&drawn.name, ": ", ExponentBase(sweep.over), " ^ ",
                      ExponentText(curve.*measure.exponent));
    }
    for (const SweptPoint& point : curve.points) {
      drawn.points.push_back(point.failure.empty() ? measure.point(point) : std::nullopt);
    }
    const auto is_missing = [](const auto& point) { return !point.has_value(); };
    if (std::ranges::all_of(drawn.points, is_missing)) drawn.name += ": not measured";
    chart.curves.push_back(std::move(drawn));
  }
  return chart;
}

std::string PointsTable(const Sweep& sweep) {
  std::vector<std::vector<std::string>> rows = {{"", AxisText(sweep.over), "Median ms", "Quartiles",
                                                 "Images/s", "Attention ms", "Peak MiB", "GMACs"}};
  for (const SweptCurve& curve : sweep.curves) {
    for (size_t i = 0; i < curve.points.size(); ++i) {
      const SweptPoint& point = curve.points[i];
      std::vector<std::string>& row =
          rows.emplace_back(std::vector<std::string>{CurveText(curve, sweep), sweep.values[i]});
      if (!point.failure.empty()) {
        row.push_back("not measured");
        row.resize(rows[0].size());
        continue;
      }
      const Quartiles& ms = point.compute_ms;
      row.insert(row.end(),
                 {Fixed(ms.median, 2), absl::StrCat(Fixed(ms.lower, 2), " to ", Fixed(ms.upper, 2)),
                  Fixed(point.images_per_second, 1), MedianText(point.attention_ms, 2),
                  Mebibytes(static_cast<double>(point.peak_bytes)), Gmacs(point.multiply_adds, 3)});
    }
  }
  return HtmlTable(rows);
}

}  // namespace

std::string SweepReport(const Sweep& sweep, const std::string& command) {
  std::string sections;
  for (const Measure& measure : Measures()) {
    sections +=
        ReportSection(measure.title, SvgCurves(ChartOf(sweep, measure)), measure.explanation);
  }
  sections += ReportSection("Points", PointsTable(sweep), "Multiply-adds are of one image.");
  return ReportPage(absl::StrCat("How costs grow with ", AxisText(sweep.over)),
                    SweepConditions(sweep), ProvenanceText(sweep.measured), command,
                    SweepNotes(sweep), sections);
}

absl::StatusOr<std::string> SweepPicture(const Sweep& sweep) {
  std::vector<CurveChart> charts;
  for (const Measure& measure : Measures()) charts.push_back(ChartOf(sweep, measure));
  try {
    return EncodePng(DrawCurves(SweepConditions(sweep), charts));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not drawn: there is not enough memory");
  }
}

}  // namespace fovea::client
