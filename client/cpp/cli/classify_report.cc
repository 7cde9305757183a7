#include "client/cpp/cli/classify_report.h"

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

}  // namespace

ClassifyReport::ClassifyReport(const ModelId& model, const ClassifyOptions& options,
                               std::optional<size_t> files, const Console& console)
    : model_(model), options_(options), console_(console), tally_("classified", files, console) {
  if (options_.json) console_.out << ClassifiedJsonHead(model) << std::flush;
}

void ClassifyReport::Add(const AskedFile<ClassifyResponse>& file) {
  tally_.ClearProgress();
  if (options_.json) {
    console_.out << (tally_.succeeded() + tally_.failed() > 0 ? ",\n" : "\n")
                 << ClassifiedJson(file.path, file.outcome);
  } else if (file.outcome.ok()) {
    console_.out << Printable(file.path) << ": " << ClassesText(file.outcome->images[0]) << '\n';
    if (options_.receipt) console_.out << "  " << ReceiptText(file.outcome->receipt) << '\n';
  }
  console_.out << std::flush;
  if (file.outcome.ok()) untrained_ = untrained_ || file.outcome->untrained;
  tally_.Add(file.path, file.outcome.status());
}

ExitCode ClassifyReport::Finish(std::optional<size_t> files, bool interrupted) {
  tally_.ClearProgress();
  if (options_.json) {
    console_.out << ClassifiedJsonTail(tally_.succeeded(), tally_.failed(), tally_.Without(files),
                                       interrupted)
                 << '\n';
  } else if (untrained_) {
    console_.out << "\nThe weights of " << Printable(model_.name)
                 << " are random numbers: its labels mean nothing.\n";
  }
  console_.out << std::flush;
  return tally_.Finish(files, interrupted);
}

}  // namespace fovea::client
