// labels.txt: the names of a model's classes, one a line, in the order of its logits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fovea {

inline constexpr std::string_view kLabelsFile = "labels.txt";

// Lines end with \n or \r\n; the last end may be missing. FAILED_PRECONDITION, with the line: not
// UTF-8, a control character, an empty line or one longer than 1,024 bytes. `problems`, if it is
// given, is added every such line up to limits::kMaxProblemsOfAFile, the returned one first.
absl::StatusOr<std::vector<std::string>> ParseLabels(std::string_view text,
                                                     std::vector<absl::Status>* problems = nullptr);

// The text of a file that is read as these labels. FAILED_PRECONDITION where there is none: as
// ParseLabels says, a label with the end of a line in it, or more text than is read.
absl::StatusOr<std::string> LabelsText(const std::vector<std::string>& labels);

// FAILED_PRECONDITION where there are labels, and not one for each of the model's `classes`. Asked
// as soon as the number of classes is known: when the folder is read where its spec has it,
// otherwise when the model is loaded.
absl::Status CheckLabelCount(const std::vector<std::string>& labels, int64_t classes);

}  // namespace fovea
