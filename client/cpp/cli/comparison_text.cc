#include "client/cpp/cli/comparison_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

using Align = Table::Align;

std::string Range(double lower, double upper, int decimals) {
  return absl::StrCat(Fixed(lower, decimals), "-", Fixed(upper, decimals));
}

std::string NameOf(const ComparedModel& model) { return Printable(ModelText(model.model)); }

std::vector<std::string> TimeCells(const std::string& name, const std::string& attention,
                                   const ComparedTime& time, const std::string& verdict) {
  return {name,
          attention,
          Fixed(time.ms.median, 2),
          Range(time.ms.lower, time.ms.upper, 2),
          time.ratio ? Fixed(time.ratio->value, 3) : "-",
          time.ratio ? Range(time.ratio->lower, time.ratio->upper, 3) : "-",
          verdict};
}

void PrintTimes(const std::string& title, const Comparison& comparison,
                ComparedTime ComparedModel::*time, const ComparedTime& control, std::ostream& out,
                bool colour) {
  Table table({{title},
               {"ATTENTION"},
               {"MEDIAN ms", Align::kRight},
               {"QUARTILES", Align::kRight},
               {"RATIO", Align::kRight},
               {"95 % INTERVAL", Align::kRight},
               {"VERDICT"}});
  for (const ComparedModel& model : comparison.models) {
    const bool baseline = &model == &comparison.models.front();
    table.AddRow(TimeCells(ModelText(model.model), model.attention, model.*time,
                           baseline ? "baseline" : VerdictText((model.*time).verdict)));
    if (baseline) {
      table.AddRow(TimeCells(ModelText(model.model) + " again", model.attention, control,
                             control.verdict == Verdict::kControlOff ? "control: off" : "control"));
    }
  }
  table.Print(out, colour);
  out << '\n';
}

void PrintDoubts(const std::string& what, const Comparison& comparison,
                 ComparedTime ComparedModel::*time, std::ostream& out) {
  for (const ComparedModel& model : comparison.models) {
    const bool baseline = &model == &comparison.models.front();
    const Verdict verdict = (model.*time).verdict;
    if (baseline || IsVerdict(verdict)) continue;
    out << "No verdict on the " << what << " of " << NameOf(model) << " after "
        << Count(comparison.rounds, "round") << ": " << DoubtText(verdict) << ".\n";
  }
}

std::string Agreement(const ComparedModel& model) {
  if (model.top1.size() == 1) return model.images_agreeing == 1 ? "yes" : "no";
  return absl::StrCat(model.images_agreeing, " of ", model.top1.size());
}

// What is seen in the image only where there is one: with several, how many are seen alike.
void PrintAnswers(const std::vector<ComparedModel>& models, std::ostream& out, bool colour) {
  const bool one = models.front().top1.size() == 1;
  std::vector<Table::Column> columns = {{"ANSWERS"}, {"PEAK MiB", Align::kRight}};
  if (one) columns.insert(columns.end(), {{"TOP-1"}, {"CONFIDENCE", Align::kRight}});
  columns.insert(columns.end(), {{"SAME TOP-1"}, {"MAX DIFFERENCE", Align::kRight}});
  Table table(std::move(columns));
  for (const ComparedModel& model : models) {
    const bool baseline = &model == &models.front();
    const auto& difference = model.max_confidence_difference;
    std::vector<std::string> cells = {ModelText(model.model),
                                      Mebibytes(static_cast<double>(model.peak_bytes))};
    if (one) {
      cells.push_back(LabelOf(model.top1[0]));
      cells.push_back(Percent(model.top1[0].confidence));
    }
    cells.push_back(baseline ? "-" : Agreement(model));
    cells.push_back(!baseline && difference ? Fixed(100 * *difference, 2) + " %" : "-");
    table.AddRow(std::move(cells));
  }
  table.Print(out, colour);
}

}  // namespace

std::string VerdictText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster:
      return "faster";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kNoDifference:
      return "no difference";
    default:
      return "none";
  }
}

std::string DoubtText(Verdict doubt) {
  switch (doubt) {
    case Verdict::kFewRounds:
      return absl::StrCat("an interval needs ", kLeastSeries, " rounds");
    case Verdict::kUnsteady:
      return "its times, or the control's, change so slowly that these rounds are too few";
    case Verdict::kControlOff:
      return "the control is off, so something else than the models moved the times";
    case Verdict::kWide:
      return absl::StrCat("its interval or the control's is wider than ",
                          Fixed(100 * kWidestInterval, 0), " %");
    case Verdict::kNotMeasured:
      return "the server does not report it";
    default:
      return "";
  }
}

std::string EstimateText(const Estimate& estimate) {
  return absl::StrCat(Fixed(estimate.value, 3), " (", Range(estimate.lower, estimate.upper, 3),
                      ")");
}

void PrintComparison(const Comparison& comparison, const std::vector<std::string>& images,
                     std::ostream& out, bool colour) {
  const std::string baseline = NameOf(comparison.models.front());
  out << (images.size() == 1 ? Printable(images[0]) : Count(images.size(), "image")) << ", "
      << Count(comparison.rounds, "round")
      << ", each asking every model once in random order, one request at a time\n\n";
  PrintTimes("LATENCY", comparison, &ComparedModel::latency, comparison.control_latency, out,
             colour);
  PrintTimes("COMPUTE", comparison, &ComparedModel::compute, comparison.control_compute, out,
             colour);
  PrintAnswers(comparison.models, out, colour);
  out << "\nLATENCY is the client's, COMPUTE the server's. RATIO is to " << baseline
      << " in the same round, its interval bootstrapped;\na verdict says that it lies beyond the "
         "control's, which is "
      << baseline << " asked a second time.\nPEAK is the most that a batch's tensors held; "
      << "SAME TOP-1 as " << baseline
      << "; MAX DIFFERENCE from its confidence, over all classes.\n";
  PrintDoubts("latency", comparison, &ComparedModel::latency, out);
  PrintDoubts("compute", comparison, &ComparedModel::compute, out);
  int largest_batch = 0;
  for (const ComparedModel& model : comparison.models) {
    largest_batch = std::max(largest_batch, model.largest_batch);
    if (model.untrained) {
      out << "The weights of " << NameOf(model)
          << " are random numbers: its labels mean nothing.\n";
    }
  }
  if (largest_batch > 1) {
    out << "The server was busy with other requests as well (batches of up to " << largest_batch
        << " images): these times are not the models' own.\n";
  }
}

}  // namespace fovea::client
