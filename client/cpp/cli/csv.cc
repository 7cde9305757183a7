#include "client/cpp/cli/csv.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace fovea::client {
namespace {

using Json = nlohmann::ordered_json;

// True for a text that spreadsheets would run as a formula, unless an apostrophe precedes it
// (OWASP, CSV Injection).
bool IsLikeAFormula(std::string_view text) {
  return !text.empty() && std::string_view("=+-@\t\r\n").find(text[0]) != std::string_view::npos;
}

std::string Field(const Json& value) {
  if (value.is_null()) return "";
  // File names need not be UTF-8, JSON must be.
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (value.is_string() && IsLikeAFormula(text)) text.insert(0, 1, '\'');
  if (text.find_first_of(",\"\n\r") == text.npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

void AddFlat(const Json& object, const std::string& prefix, Json& row) {
  // Bounds of intervals are called lower and upper, too.
  const bool quartiles = object.contains("median");
  for (const auto& [name, value] : object.items()) {
    const std::string column = prefix + (quartiles && name == "lower"   ? "q1"
                                         : quartiles && name == "upper" ? "q3"
                                                                        : name);
    if (value.is_object()) {
      AddFlat(value, column + "_", row);
    } else {
      row[column] = value;
    }
  }
}

}  // namespace

Json Flat(const Json& object) {
  Json row = Json::object();
  AddFlat(object, "", row);
  return row;
}

std::string Csv(const std::vector<Json>& rows) {
  std::vector<std::string> columns;
  for (const Json& row : rows) {
    for (const auto& [name, value] : row.items()) {
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    }
  }
  std::string csv = absl::StrCat(absl::StrJoin(columns, ","), "\r\n");
  for (const Json& row : rows) {
    std::vector<std::string> fields;
    for (const std::string& column : columns) {
      const auto found = row.find(column);
      fields.push_back(found == row.end() ? "" : Field(*found));
    }
    absl::StrAppend(&csv, absl::StrJoin(fields, ","), "\r\n");
  }
  return csv;
}

}  // namespace fovea::client
