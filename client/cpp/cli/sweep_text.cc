#include "client/cpp/cli/sweep_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cli/comparison_text.h"
#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"
#include "client/cpp/cli/variants.h"

namespace fovea::client {
namespace {

using Align = Table::Align;

void PrintPoints(const Sweep& sweep, std::ostream& out, bool colour) {
  Table table({{"CURVE"},
               {absl::AsciiStrToUpper(AxisText(sweep.over)), Align::kRight},
               {"MEDIAN ms", Align::kRight},
               {"QUARTILES", Align::kRight},
               {"IMAGES/s", Align::kRight},
               {"ATTENTION ms", Align::kRight},
               {"PEAK MiB", Align::kRight},
               {"GMACs", Align::kRight}});
  for (const SweptCurve& curve : sweep.curves) {
    for (size_t i = 0; i < curve.points.size(); ++i) {
      const SweptPoint& point = curve.points[i];
      std::vector<std::string> cells = {CurveText(curve, sweep), sweep.values[i]};
      if (point.failure.empty()) {
        const Quartiles& ms = point.compute_ms;
        cells.insert(
            cells.end(),
            {Fixed(ms.median, 2), RangeText(ms.lower, ms.upper, 2),
             Fixed(point.images_per_second, 1), MedianText(point.attention_ms, 2),
             Mebibytes(static_cast<double>(point.peak_bytes)), Gmacs(point.multiply_adds, 3)});
      } else {
        cells.resize(8, "-");
      }
      table.AddRow(std::move(cells));
    }
  }
  table.Print(out, colour);
  out << '\n';
}

void PrintExponents(const Sweep& sweep, std::ostream& out, bool colour) {
  Table table({{absl::StrCat("EXPONENT OF ", absl::AsciiStrToUpper(ExponentBase(sweep.over)))},
               {"COMPUTE", Align::kRight},
               {"OFF BY", Align::kRight},
               {"ATTENTION", Align::kRight},
               {"OFF BY", Align::kRight},
               {"PEAK MEMORY", Align::kRight},
               {"POINTS", Align::kRight}});
  const auto off = [](const std::optional<FittedExponent>& fitted) {
    return fitted ? Percent(fitted->worst_ratio - 1) : "-";
  };
  for (const SweptCurve& curve : sweep.curves) {
    table.AddRow({CurveText(curve, sweep), ExponentText(curve.compute_exponent),
                  off(curve.compute_exponent), ExponentText(curve.attention_exponent),
                  off(curve.attention_exponent), ExponentText(curve.peak_exponent),
                  curve.compute_exponent ? absl::StrCat(curve.compute_exponent->points) : "-"});
  }
  table.Print(out, colour);
  out << '\n';
}

}  // namespace

std::string AxisText(SweepAxis axis) {
  switch (axis) {
    case SweepAxis::kResolution:
      return "resolution";
    case SweepAxis::kBatch:
      return "batch";
    case SweepAxis::kK:
      return "k";
    case SweepAxis::kTemperature:
      return "temperature";
    case SweepAxis::kHeads:
      return "heads";
    case SweepAxis::kThreads:
      return "threads";
    case SweepAxis::kPrecision:
      return "precision";
  }
  return "";
}

std::string CurveText(const SweptCurve& curve, const Sweep& sweep) {
  std::vector<ModelId> models;
  for (const SweptCurve& one : sweep.curves) models.push_back(one.model);
  return VariantLabel(curve.model, curve.attention, models);
}

std::string ExponentText(const std::optional<FittedExponent>& fitted) {
  if (!fitted) return "-";
  const Estimate& exponent = fitted->exponent;
  // Nothing moves it, or too few rounds tell how far noise does.
  if (exponent.lower == exponent.upper || !std::isfinite(exponent.upper)) {
    return Fixed(exponent.value, 2);
  }
  return absl::StrCat(Fixed(exponent.value, 2), " (", Fixed(exponent.lower, 2), " to ",
                      Fixed(exponent.upper, 2), ")");
}

std::string ExponentBase(SweepAxis axis) {
  switch (axis) {
    case SweepAxis::kResolution:
      return "pixels";
    case SweepAxis::kTemperature:
    case SweepAxis::kPrecision:
      return "";
    default:
      return AxisText(axis);
  }
}

bool HasPoints(const Sweep& sweep) { return sweep.rounds > 0; }

std::string SweepConditions(const Sweep& sweep) {
  std::string text =
      absl::StrCat(ModelText(sweep.curves.front().model), " over ", AxisText(sweep.over));
  if (sweep.over != SweepAxis::kThreads) {
    absl::StrAppend(&text, ", ", Count(static_cast<size_t>(sweep.threads), "thread"));
  }
  if (!sweep.device.empty()) absl::StrAppend(&text, " of ", sweep.device);
  if (sweep.over != SweepAxis::kBatch) absl::StrAppend(&text, ", batches of ", sweep.batch_size);
  return absl::StrCat(text, ", ", Count(static_cast<size_t>(sweep.rounds), "round"),
                      " there and back of all points");
}

std::vector<std::string> SweepNotes(const Sweep& sweep) {
  std::vector<std::string> notes;
  if (std::string busy = BusyText(sweep.measured); !busy.empty()) notes.push_back(busy);
  for (const SweptCurve& curve : sweep.curves) {
    const std::string name = CurveText(curve, sweep);
    if (!curve.weights_of_attention.empty()) {
      notes.push_back(absl::StrCat(name, ": same weights as ", curve.weights_of_attention,
                                   ", not fine-tuned."));
    }
    if (curve.untrained) {
      notes.push_back(absl::StrCat("The weights of ", name, " are random numbers."));
    }
    for (size_t i = 0; i < curve.points.size(); ++i) {
      if (curve.points[i].attention_left_out) {
        notes.push_back(AttentionLeftOutText(
            absl::StrCat(name, " at ", AxisText(sweep.over), " ", sweep.values[i])));
      }
      if (curve.points[i].failure.empty()) continue;
      notes.push_back(absl::StrCat("Not measured: ", name, " at ", AxisText(sweep.over), " ",
                                   sweep.values[i], ": ", curve.points[i].failure, "."));
    }
  }
  if (ExponentBase(sweep.over).empty()) {
    notes.push_back(absl::StrCat("Costs do not grow with the ", AxisText(sweep.over),
                                 ": there is no exponent."));
  } else if (std::none_of(sweep.curves.begin(), sweep.curves.end(), [](const SweptCurve& curve) {
               return curve.compute_exponent.has_value();
             })) {
    notes.push_back("An exponent needs three points of a curve.");
  }
  return notes;
}

void PrintSweep(const Sweep& sweep, std::ostream& out, bool colour) {
  out << Printable(SweepConditions(sweep)) << "\n\n";
  PrintPoints(sweep, out, colour);
  const std::string base = ExponentBase(sweep.over);
  if (std::any_of(sweep.curves.begin(), sweep.curves.end(),
                  [](const SweptCurve& curve) { return curve.compute_exponent.has_value(); })) {
    PrintExponents(sweep, out, colour);
    out << "COMPUTE is a batch's run, ATTENTION what attention alone takes of it, PEAK the "
           "most that its tensors held.\nAn EXPONENT e says that a cost grows as "
        << base
        << " to the power of e; OFF BY, how far the worst\npoint lies from that. The interval, at "
           "95 %, tells noise alone.\n";
  }
  for (const std::string& note : SweepNotes(sweep)) out << Printable(note) << '\n';
  PrintProvenance(sweep.measured, out);
}

}  // namespace fovea::client
