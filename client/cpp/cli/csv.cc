#include "client/cpp/cli/csv.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace fovea::client {

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string CsvField(double number) {
  return std::isfinite(number) ? absl::StrCat(number) : std::string();
}

std::string CsvField(const std::optional<double>& number) {
  return number ? CsvField(*number) : std::string();
}

std::string CsvRow(const std::vector<std::string>& fields) {
  return absl::StrCat(absl::StrJoin(fields, ","), "\r\n");
}

}  // namespace fovea::client
