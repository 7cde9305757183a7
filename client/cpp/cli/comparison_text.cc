#include "client/cpp/cli/comparison_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"
#include "client/cpp/cli/variants.h"

namespace fovea::client {
namespace {

using Align = Table::Align;

bool IsBaseline(const ComparedVariant& variant, const Comparison& comparison) {
  return &variant == &comparison.variants.front();
}

void PrintCompute(const Comparison& comparison, std::ostream& out, bool colour) {
  Table table({{"COMPUTE"},
               {"MEDIAN ms", Align::kRight},
               {"QUARTILES", Align::kRight},
               {"RATIO", Align::kRight},
               {"95 % INTERVAL", Align::kRight},
               {"IMAGES/s", Align::kRight},
               {"VERDICT"}});
  const auto add = [&](const std::string& name, const ComparedTime& time, const std::string& rate,
                       const std::string& verdict) {
    table.AddRow({name, Fixed(time.ms.median, 2), RangeText(time.ms.lower, time.ms.upper, 2),
                  time.ratio ? Fixed(time.ratio->value, 3) : "-",
                  time.ratio ? RangeText(time.ratio->lower, time.ratio->upper, 3) : "-", rate,
                  verdict});
  };
  for (const ComparedVariant& variant : comparison.variants) {
    const std::string name = VariantText(variant, comparison);
    const bool baseline = IsBaseline(variant, comparison);
    add(name, variant.compute, Fixed(variant.images_per_second, 1),
        baseline ? "baseline" : VerdictText(variant.compute.verdict));
    if (!baseline) continue;
    add(name + " again", comparison.control, "",
        comparison.control.verdict == Verdict::kControlOff ? "control: off" : "control");
  }
  table.Print(out, colour);
  out << '\n';
}

void PrintCosts(const Comparison& comparison, std::ostream& out, bool colour) {
  Table table({{"COST"},
               {"DECODE ms", Align::kRight},
               {"PREPARE ms", Align::kRight},
               {"ATTENTION ms", Align::kRight},
               {"RESULTS ms", Align::kRight},
               {"PEAK MiB", Align::kRight},
               {"WEIGHTS MiB", Align::kRight},
               {"GMACs", Align::kRight}});
  for (const ComparedVariant& variant : comparison.variants) {
    table.AddRow({VariantText(variant, comparison), Fixed(variant.decode_ms.median, 2),
                  Fixed(variant.preprocess_ms.median, 2), MedianText(variant.attention_ms, 2),
                  Fixed(variant.postprocess_ms.median, 2),
                  Mebibytes(static_cast<double>(variant.peak_bytes)),
                  Mebibytes(static_cast<double>(variant.weight_bytes)),
                  Gmacs(variant.multiply_adds, 2)});
  }
  table.Print(out, colour);
  out << '\n';
}

// The columns of a task's agreement and, of a variant, their cells.
struct AgreementColumns {
  std::vector<std::string> operator()(std::monostate) const { return {}; }
  std::vector<std::string> operator()(const ClassAgreement&) const {
    return {"same top-1", "top-5 overlap", "KL, nats", "largest difference"};
  }
  std::vector<std::string> operator()(const ObjectAgreement&) const {
    return {"objects", "matched", "box IoU", "mask IoU", "score difference"};
  }
  std::vector<std::string> operator()(const MapAgreement&) const {
    return {"same pixels", "mean IoU"};
  }
};
struct AgreementCells {
  std::vector<std::string> operator()(std::monostate) const { return {}; }
  std::vector<std::string> operator()(const ClassAgreement& classes) const {
    return {absl::StrCat(classes.same_top1, " of ", classes.images), Percent(classes.top5_overlap),
            Fixed(classes.kl_divergence, 4), Percent(classes.max_confidence_difference)};
  }
  std::vector<std::string> operator()(const ObjectAgreement& objects) const {
    return {absl::StrCat(objects.objects, " of ", objects.baseline_objects),
            absl::StrCat(objects.matched), Fixed(objects.mean_box_iou, 3),
            objects.mean_mask_iou ? Fixed(*objects.mean_mask_iou, 3) : "-",
            Fixed(objects.mean_score_difference, 3)};
  }
  std::vector<std::string> operator()(const MapAgreement& maps) const {
    return {Percent(maps.same_pixels), Fixed(maps.mean_iou, 3)};
  }
};

void PrintAnswers(const Comparison& comparison, std::ostream& out, bool colour) {
  std::vector<Table::Column> columns = {{"ANSWERS"}, {"FIRST"}};
  const std::vector<std::string> titles = AgreementTitles(comparison);
  for (const std::string& title : titles) {
    columns.push_back({absl::AsciiStrToUpper(title), Align::kRight});
  }
  columns.push_back({"FEATURES", Align::kRight});
  Table table(columns);
  for (const ComparedVariant& variant : comparison.variants) {
    std::vector<std::string> cells = {
        VariantText(variant, comparison),
        variant.answers.empty() ? "-" : AnswerText(variant.answers[0])};
    for (std::string& cell : AgreementTexts(variant)) cells.push_back(std::move(cell));
    if (IsBaseline(variant, comparison)) cells.resize(2 + titles.size(), "");
    cells.push_back(variant.feature_cosine ? Fixed(*variant.feature_cosine, 4) : "");
    table.AddRow(std::move(cells));
  }
  table.Print(out, colour);
}

void PrintDataset(const Comparison& comparison, const DatasetFigures& dataset, std::ostream& out,
                  bool colour) {
  const auto rows = DatasetRows(dataset, VariantTexts(comparison));
  std::vector<Table::Column> columns;
  for (size_t i = 0; i < rows[0].size(); ++i) {
    columns.push_back({absl::AsciiStrToUpper(rows[0][i]), i < 2 ? Align::kLeft : Align::kRight});
  }
  Table table(columns);
  for (size_t i = 1; i < rows.size(); ++i) table.AddRow(rows[i]);
  out << '\n';
  table.Print(out, colour);
}

}  // namespace

std::string VerdictText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster:
      return "faster";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kEquivalent:
      return "equivalent";
    case Verdict::kBaseline:
      return "baseline";
    default:
      return "undecided";
  }
}

std::string DoubtText(Verdict doubt) {
  switch (doubt) {
    case Verdict::kUndecided:
      return "its interval lies neither within 5 % of 1 nor beyond both 1 and the control's";
    case Verdict::kFewRounds:
      return absl::StrCat("an interval needs ", kLeastSeries, " rounds");
    case Verdict::kUnsteady:
      return "its times, or the control's, change so slowly that these rounds are too few";
    case Verdict::kControlOff:
      return "the control is off, so something else than the variants moved the times";
    case Verdict::kWide:
      return "its interval or the control's is wider than 10 %";
    case Verdict::kUnknown:
      return "the server is newer than this program";
    default:
      return "";
  }
}

std::string VariantText(const ComparedVariant& variant, const Comparison& comparison) {
  std::vector<ModelId> models;
  for (const ComparedVariant& one : comparison.variants) models.push_back(one.model);
  return VariantLabel(variant.model, variant.attention, models);
}

std::vector<std::string> VariantTexts(const Comparison& comparison) {
  std::vector<std::string> texts;
  for (const ComparedVariant& variant : comparison.variants) {
    texts.push_back(VariantText(variant, comparison));
  }
  return texts;
}

std::string ProvenanceText(const Provenance& measured) {
  if (measured.at.empty()) return "";
  return absl::StrCat("Measured ", measured.at, " by ", measured.by, " on ",
                      Count(static_cast<size_t>(measured.cores), "core"), " of ",
                      measured.processor, ".");
}

void PrintProvenance(const Provenance& measured, std::ostream& out) {
  const std::string text = ProvenanceText(measured);
  if (!text.empty()) out << Printable(text) << '\n';
}

std::string BusyText(const Provenance& measured) {
  if (!measured.busy) return "";
  return absl::StrCat("The machine was busy: other programs used ",
                      Fixed(measured.other_cores.value_or(0), 1), " of ",
                      Count(static_cast<size_t>(measured.cores), "core"),
                      ", so that times are longer and vary more than on a quiet machine. Stop "
                      "them, or measure on fewer threads (--threads).");
}

std::vector<std::string> ComparisonNotes(const Comparison& comparison) {
  std::vector<std::string> notes;
  if (std::string busy = BusyText(comparison.measured); !busy.empty()) notes.push_back(busy);
  for (const ComparedVariant& variant : comparison.variants) {
    const std::string name = VariantText(variant, comparison);
    if (!variant.weights_of_attention.empty()) {
      notes.push_back(absl::StrCat(name, ": same weights as ", variant.weights_of_attention,
                                   ", not fine-tuned."));
    }
    if (variant.untrained) {
      notes.push_back(
          absl::StrCat("The weights of ", name, " are random numbers: its answers mean nothing."));
    }
    if (variant.attention_left_out) {
      notes.push_back(AttentionLeftOutText(name));
    }
    const Verdict verdict = variant.compute.verdict;
    if (IsBaseline(variant, comparison) || IsVerdict(verdict)) continue;
    notes.push_back(absl::StrCat(name, " is undecided: ", DoubtText(verdict), "."));
  }
  return notes;
}

std::string ComparisonConditions(const Comparison& comparison,
                                 const std::vector<std::string>& images) {
  return absl::StrCat(images.size() == 1 ? images[0] : Count(images.size(), "image"), ", ",
                      ModelText(comparison.variants.front().model), " on ",
                      Count(static_cast<size_t>(comparison.threads), "thread"), " of ",
                      comparison.device, ", batches of ", comparison.batch_size, ", ",
                      Count(static_cast<size_t>(comparison.rounds), "round"), " there and back");
}

std::vector<std::string> AgreementTitles(const Comparison& comparison) {
  return std::visit(AgreementColumns(), comparison.variants.back().agreement);
}

std::vector<std::string> AgreementTexts(const ComparedVariant& variant) {
  return std::visit(AgreementCells(), variant.agreement);
}

std::string AnswerText(const BriefAnswer& answer) {
  return answer.label.empty() ? "nothing"
                              : absl::StrCat(answer.label, " ", Percent(answer.confidence));
}

void PrintComparison(const Comparison& comparison, const std::vector<std::string>& images,
                     std::ostream& out, bool colour, const DatasetFigures* dataset) {
  const ComparedVariant& baseline = comparison.variants.front();
  out << Printable(ComparisonConditions(comparison, images)) << "\n\n";
  PrintCompute(comparison, out, colour);
  PrintCosts(comparison, out, colour);
  PrintAnswers(comparison, out, colour);
  if (dataset != nullptr) PrintDataset(comparison, *dataset, out, colour);
  out << "\nRATIO is to " << Printable(VariantText(baseline, comparison))
      << " in the same round (the ratio of the medians would differ), its interval\n"
         "bootstrapped. Slower and faster: it lies beyond 1 and the control's, which is the same "
         "model once more. Equivalent: it lies\nwithin 5 % of 1. Rounds go on until all are "
         "decided. ATTENTION is a part of COMPUTE. "
         "PEAK is the most that a\nbatch's tensors held. FIRST is what stands first in the "
         "answer to the first picture. ANSWERS are compared with the\nbaseline's; FEATURES is the "
         "cosine between the last tokens.\n";
  for (const std::string& note : ComparisonNotes(comparison)) out << Printable(note) << '\n';
  PrintProvenance(comparison.measured, out);
  if (dataset == nullptr) return;
  out << "DATA SET is " << Printable(DatasetConditions(*dataset))
      << "; the interval of a difference is of the same pictures.\n";
  for (const std::string& note : DatasetNotes(*dataset, VariantTexts(comparison))) {
    out << Printable(note) << '\n';
  }
}

}  // namespace fovea::client
