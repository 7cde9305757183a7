#include "client/cpp/cli/classify_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cli/json.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

std::string ClassesText(const std::vector<ClassScore>& scores) {
  return absl::StrJoin(scores, ", ", [](std::string* text, const ClassScore& score) {
    absl::StrAppend(text, Printable(LabelOf(score)), " ", Percent(score.confidence));
  });
}

std::string ReceiptText(const Receipt& receipt) {
  std::string text;
  for (size_t i = 0; i < kStageNames.size(); ++i) {
    absl::StrAppend(&text, kStageNames[i].data(), " ", Milliseconds(receipt.stages[i]), ", ");
  }
  return absl::StrCat(text, "total ", Milliseconds(receipt.total()), " ms; batch of ",
                      receipt.batch_size, ", peak ",
                      Mebibytes(static_cast<double>(receipt.batch_peak_bytes)), " MiB");
}

}  // namespace

ClassifyReport::ClassifyReport(const ModelId& model, const ClassifyOptions& options,
                               std::optional<size_t> files, const Console& console)
    : model_(model), options_(options), files_(files), console_(console) {
  if (options_.json) console_.out << ClassifiedJsonHead(model) << std::flush;
}

void ClassifyReport::Add(const ClassifiedFile& file) {
  ClearProgress();
  if (options_.json) {
    console_.out << (classified_ + failed_ > 0 ? ",\n" : "\n")
                 << ClassifiedJson(file.path, file.outcome);
  } else if (file.outcome.ok()) {
    console_.out << Printable(file.path) << ": " << ClassesText(file.outcome->images[0]) << '\n';
    if (options_.receipt) console_.out << "  " << ReceiptText(file.outcome->receipt) << '\n';
  }
  console_.out << std::flush;
  if (file.outcome.ok()) {
    ++classified_;
    untrained_ = untrained_ || file.outcome->untrained;
  } else {
    ++failed_;
    exit_code_ = std::max(exit_code_, Report(console_, file.outcome.status(), file.path));
  }
  ShowProgress();
}

ExitCode ClassifyReport::Finish(std::optional<size_t> files, bool interrupted) {
  ClearProgress();
  if (interrupted) exit_code_ = kInterrupted;
  const size_t results = classified_ + failed_;
  std::optional<size_t> without_result;
  if (files) without_result = *files - results;
  if (options_.json) {
    console_.out << ClassifiedJsonTail(classified_, failed_, without_result, interrupted) << '\n';
  } else if (untrained_) {
    console_.out << "\nThe weights of " << Printable(model_.name)
                 << " are random numbers: its labels mean nothing.\n";
  }
  console_.out << std::flush;
  if (interrupted || without_result != 0) {
    console_.err << "fovea: " << (interrupted ? "interrupted" : "given up") << ": " << classified_
                 << " classified, " << failed_ << " failed, "
                 << (without_result ? absl::StrCat(*without_result) : "the rest of the list")
                 << " not sent or without an answer\n";
  }
  return exit_code_;
}

void ClassifyReport::ShowProgress() {
  if (!console_.progress) return;
  console_.err << classified_ << " classified, " << failed_ << " failed";
  if (files_) console_.err << " of " << *files_;
  console_.err << std::flush;
}

void ClassifyReport::ClearProgress() {
  if (console_.progress) console_.err << "\r\033[K" << std::flush;
}

}  // namespace fovea::client
