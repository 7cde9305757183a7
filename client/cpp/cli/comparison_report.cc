#include "client/cpp/cli/comparison_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/comparison_text.h"
#include "client/cpp/cli/report_page.h"
#include "client/cpp/cli/svg_bars.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

std::string Milliseconds(double ms) { return absl::StrCat(Fixed(ms, 2), " ms"); }

std::string ComputeSection(const Comparison& comparison) {
  BarChart chart{.title = "Compute against the baseline", .parts = {"ratio"}, .mark = 1};
  for (const ComparedVariant& variant : comparison.variants) {
    const ComparedTime& time = variant.compute;
    Bar bar{.name = VariantText(variant, comparison), .parts = {1}};
    bar.text = Milliseconds(time.ms.median);
    if (time.ratio) {
      bar.parts = {time.ratio->value};
      bar.interval = {time.ratio->lower, time.ratio->upper};
      bar.text = absl::StrCat(Fixed(time.ratio->value, 3), ", ", VerdictText(time.verdict));
    }
    chart.bars.push_back(std::move(bar));
  }
  if (const auto& ratio = comparison.control.ratio) {
    chart.bars.push_back({.name = "baseline again",
                          .parts = {ratio->value},
                          .text = absl::StrCat(Fixed(ratio->value, 3), ", control"),
                          .interval = Bar::Interval{ratio->lower, ratio->upper}});
  }
  return ReportSection(
      "Compute", SvgBars(chart),
      "The time of a batch as a ratio to the baseline's in the same round, with the "
      "interval in which the median lies at 95 %. Slower and faster: it lies beyond 1 and the "
      "control's, which is the baseline loaded once more. Equivalent: it lies within 5 % of 1.");
}

// Where the median of an image's time goes. Attention that was timed in passes of its own may
// exceed its whole by a little.
std::string StagesSection(const Comparison& comparison) {
  BarChart chart{.title = "Time by stage",
                 .parts = {"attention", "rest of compute", "decode", "prepare", "results"}};
  for (const ComparedVariant& variant : comparison.variants) {
    const double compute = variant.compute.ms.median;
    const double attention =
        variant.attention_ms ? std::min(variant.attention_ms->median, compute) : 0;
    const double others =
        variant.decode_ms.median + variant.preprocess_ms.median + variant.postprocess_ms.median;
    chart.bars.push_back({.name = VariantText(variant, comparison),
                          .parts = {attention, compute - attention, variant.decode_ms.median,
                                    variant.preprocess_ms.median, variant.postprocess_ms.median},
                          .text = Milliseconds(compute + others)});
  }
  return ReportSection(
      "Time by stage", SvgBars(chart),
      "Medians: of a batch, and of decoding and preparing one image. Attention is a part of "
      "compute.");
}

std::string MemorySection(const Comparison& comparison) {
  BarChart chart{.title = "Memory", .parts = {"batch at its peak", "weights"}};
  for (const ComparedVariant& variant : comparison.variants) {
    const double peak = static_cast<double>(variant.peak_bytes);
    const double weights = static_cast<double>(variant.weight_bytes);
    chart.bars.push_back(
        {.name = VariantText(variant, comparison),
         .parts = {peak, weights},
         .text = absl::StrCat(Mebibytes(peak), " + ", Mebibytes(weights), " MiB")});
  }
  return ReportSection(
      "Memory", SvgBars(chart),
      "The most that a batch's tensors held at one time, and the weights as they run.");
}

std::string CostsSection(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows = {
      {"", "Median", "Quartiles", "Difference", "Images/s", "Attention", "GMACs", "Parameters"}};
  for (const ComparedVariant& variant : comparison.variants) {
    const ComparedTime& time = variant.compute;
    rows.push_back({VariantText(variant, comparison), Milliseconds(time.ms.median),
                    absl::StrCat(Fixed(time.ms.lower, 2), " to ", Fixed(time.ms.upper, 2)),
                    time.difference_ms ? absl::StrCat(Fixed(time.difference_ms->value, 2), " (",
                                                      Fixed(time.difference_ms->lower, 2), " to ",
                                                      Fixed(time.difference_ms->upper, 2), ")")
                                       : "baseline",
                    Fixed(variant.images_per_second, 1),
                    variant.attention_ms ? Milliseconds(variant.attention_ms->median) : "-",
                    Gmacs(variant.multiply_adds, 2), absl::StrCat(variant.parameters)});
  }
  return ReportSection("Costs", HtmlTable(rows),
                       "Times of a batch; multiply-adds of one image. The difference is to the "
                       "baseline's run in the same round, in milliseconds, with its interval.");
}

std::string AnswersSection(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows = {{"", "First"}};
  for (const std::string& title : AgreementTitles(comparison)) rows[0].push_back(title);
  rows[0].push_back("Features");
  for (const ComparedVariant& variant : comparison.variants) {
    std::vector<std::string> row = {VariantText(variant, comparison),
                                    variant.answers.empty() ? "" : AnswerText(variant.answers[0])};
    for (std::string& text : AgreementTexts(variant)) row.push_back(std::move(text));
    row.resize(rows[0].size() - 1);
    row.push_back(variant.feature_cosine ? Fixed(*variant.feature_cosine, 4) : "");
    rows.push_back(std::move(row));
  }
  return ReportSection(
      "Answers", HtmlTable(rows),
      "What stands first in the answer to the first image, and how far all answers are "
      "the baseline's. Features: the cosine between the last tokens and the baseline's.");
}

// The first of the figures is the one that is drawn.
std::string DatasetSection(const Comparison& comparison, const DatasetFigures& dataset) {
  const std::vector<std::string> names = VariantTexts(comparison);
  BarChart chart{.title = "On the data set"};
  for (size_t i = 0; i < names.size(); ++i) {
    const std::vector<DatasetFigure>& figures = dataset.variants[i].figures;
    if (figures.empty() || !figures[0].value) continue;
    chart.parts = {figures[0].name};
    Bar bar{.name = names[i], .parts = {*figures[0].value}, .text = Fixed(*figures[0].value, 4)};
    if (const auto& of = figures[0].interval) bar.interval = {of->lower, of->upper};
    chart.bars.push_back(std::move(bar));
  }
  std::string content = chart.bars.empty() ? "" : SvgBars(chart);
  content += HtmlTable(DatasetRows(dataset, names));
  for (const std::string& note : DatasetNotes(dataset, names)) {
    absl::StrAppend(&content, "<p>", HtmlText(note), "</p>");
  }
  return ReportSection(
      "Data set", content,
      absl::StrCat(DatasetConditions(dataset),
                   chart.parts.empty() ? "" : ". Bars: " + chart.parts[0],
                   ". Intervals at 95 %, bootstrapped over the pictures; those of a "
                   "difference to the baseline are of the same pictures."));
}

}  // namespace

std::string ComparisonReport(const Comparison& comparison, const std::vector<std::string>& images,
                             const std::string& command, const DatasetFigures* dataset) {
  return ReportPage(
      "What attention costs", ComparisonConditions(comparison, images),
      ProvenanceText(comparison.measured), command, ComparisonNotes(comparison),
      absl::StrCat(ComputeSection(comparison), StagesSection(comparison), MemorySection(comparison),
                   CostsSection(comparison), AnswersSection(comparison),
                   dataset == nullptr ? "" : DatasetSection(comparison, *dataset)));
}

}  // namespace fovea::client
