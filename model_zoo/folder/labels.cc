#include "model_zoo/folder/labels.h"

#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "base/utf8.h"
#include "model_zoo/folder/file_error.h"

namespace fovea {
namespace {

absl::Status LineError(size_t line, std::string_view text) {
  return FileError("model.bad_labels", kLabelsFile, static_cast<int>(line), text);
}

absl::Status CheckLabel(std::string_view label, size_t line) {
  if (label.empty()) return LineError(line, "empty");
  if (label.size() > limits::kMaxLabelBytes) return LineError(line, "longer than 1024 bytes");
  while (!label.empty()) {
    const CodePoint next = DecodeUtf8(label);
    if (next.value == CodePoint::kInvalid) return LineError(line, "not UTF-8");
    // Labels end up in terminals.
    if (IsControl(next.value)) return LineError(line, "a control character");
    label.remove_prefix(static_cast<size_t>(next.length));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseLabels(std::string_view text,
                                                     std::vector<absl::Status>* problems) {
  std::vector<std::string> labels;
  absl::Status first;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view label = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (label.ends_with('\r')) label.remove_suffix(1);
    if (labels.size() == static_cast<size_t>(limits::kMaxClasses)) {
      absl::Status bad = LineError(labels.size() + 1, "more lines than a model may have classes");
      if (problems != nullptr) problems->push_back(bad);
      return first.ok() ? bad : first;
    }
    if (absl::Status bad = CheckLabel(label, labels.size() + 1); !bad.ok()) {
      if (first.ok()) first = bad;
      if (problems == nullptr) return first;
      if (problems->size() < limits::kMaxProblemsOfAFile) problems->push_back(std::move(bad));
    }
    labels.emplace_back(label);
  }
  FOVEA_RETURN_IF_ERROR(first);
  return labels;
}

absl::StatusOr<std::string> LabelsText(const std::vector<std::string>& labels) {
  std::string text;
  for (const std::string& label : labels) text += label + "\n";
  if (text.size() > static_cast<size_t>(limits::kMaxLabelsBytes)) {
    return FailedPrecondition("model.bad_labels",
                              std::string(kLabelsFile) + " would be larger than " +
                                  std::to_string(limits::kMaxLabelsBytes >> 20) + " MiB");
  }
  FOVEA_ASSIGN_OR_RETURN(const std::vector<std::string> read, ParseLabels(text));
  // Two labels where one was, or one without its "\r".
  if (read != labels) {
    return FailedPrecondition("model.bad_labels",
                              std::string(kLabelsFile) + ": a label has the end of a line in it");
  }
  return text;
}

absl::Status CheckLabelCount(const std::vector<std::string>& labels, int64_t classes) {
  if (labels.empty() || static_cast<int64_t>(labels.size()) == classes) return absl::OkStatus();
  return FailedPrecondition(
      "model.bad_labels", std::string(kLabelsFile) + " has " + std::to_string(labels.size()) +
                              " lines, and the model has " + std::to_string(classes) + " classes");
}

}  // namespace fovea
