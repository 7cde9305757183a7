// Fields and rows of CSV, RFC 4180. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fovea::client {

std::string CsvField(const std::string& text);
// Empty: it is no finite number.
std::string CsvField(double number);
std::string CsvField(const std::optional<double>& number);

// With its end.
std::string CsvRow(const std::vector<std::string>& fields);

}  // namespace fovea::client
