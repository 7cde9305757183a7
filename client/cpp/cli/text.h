// Numbers and words as the tables show them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/statistics.h"
#include "client/cpp/types.h"

namespace fovea::client {

std::string Fixed(double value, int decimals);
std::string Milliseconds(absl::Duration duration);  // "12.30", without the unit
std::string Mebibytes(double bytes);                // "12.30", without the unit
std::string MedianText(const std::optional<Quartiles>& quartiles, int decimals);  // "-" of none
std::string Gmacs(int64_t multiply_adds, int decimals);           // "-" of 0: not counted
std::string Percent(double share);                                // "63.1 %"
std::string RangeText(double lower, double upper, int decimals);  // "1.20-1.35"
std::string Ago(absl::Duration duration);  // "12 s ago"; "never" for an infinite one

// "1 image", "2 images".
std::string Count(size_t count, const std::string& noun);

// The label, or "class 17" where the model has none.
std::string LabelOf(const ClassScore& score);
std::string LabelOf(const Detection& detection);
std::string LabelOf(const ClassArea& area);

// A line of the stages and what they add up to, in milliseconds, the batch and its memory, and the
// arm of an experiment that answered.
std::string ReceiptText(const Receipt& receipt);

// "3x224x224" of [-1, 3, 224, 224]: the batch's dimension is left out, and any size is "?".
std::string ShapeText(const std::vector<int64_t>& shape);

std::string ModelText(const ModelId& model);  // "NAME", or "NAME/VERSION"
// INVALID_ARGUMENT: no name, or more than one slash.
absl::StatusOr<ModelId> ParseModel(const std::string& text);

// "2" (seconds), "500ms", "1.5s", "2m". INVALID_ARGUMENT: anything else, and what is not above
// zero.
absl::StatusOr<absl::Duration> ParseTime(const std::string& text);

// Text from outside, fit for a terminal: control characters, separators of lines, marks that turn
// the direction of text, and bytes that are no UTF-8 become '?'.
std::string Printable(const std::string& text);

// Printable text as it may stand in HTML, in elements and in quoted attributes.
std::string HtmlText(const std::string& text);

// Columns that UTF-8 text takes on a terminal, a character each.
size_t Width(const std::string& text);

// At most `columns` wide, with an ellipsis for what was cut off.
std::string Shortened(const std::string& text, size_t columns);

}  // namespace fovea::client
