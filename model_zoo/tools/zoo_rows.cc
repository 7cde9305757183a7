#include "model_zoo/tools/zoo_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace fovea::models {
namespace {

std::string Fixed(double value, int digits) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string Mebibytes(const std::optional<int64_t>& bytes) {
  return bytes ? Fixed(static_cast<double>(*bytes) / (1 << 20), 1) : "";
}

std::string Differences(const PrintedCosts& printed) {
  const std::string parameters(printed.parameters_differ), operations(printed.operations_differ);
  if (operations.empty() || operations == parameters) return parameters;  // of both
  return parameters + (parameters.empty() ? "FLOPs: " : "; FLOPs: ") + operations;
}

std::string Pixels(const ImageSize& size) {
  const std::string height = std::to_string(size.height);
  return size.height == size.width ? height : height + "x" + std::to_string(size.width);
}

std::vector<std::string> Cells(const Row& row, bool heads, bool memory) {
  std::vector<std::string> cells = {row.backbone, row.attention};
  if (heads) cells.push_back(row.head);
  cells.insert(cells.end(), {Pixels(row.size), Fixed(row.parameters_m, 2),
                             row.printed ? std::string(row.printed->parameters) : "",
                             Fixed(row.multiply_adds_g, 2), Fixed(2 * row.multiply_adds_g, 2)});
  std::string operations;
  if (row.printed && !row.printed->operations.empty()) {
    operations = std::string(row.printed->operations) +
                 (row.printed->operations_per_multiply_add == 2 ? " FLOPs" : "");
  }
  cells.push_back(operations);
  if (memory) {
    cells.push_back(Mebibytes(row.peak_1));
    cells.push_back(Mebibytes(row.peak_16));
  }
  cells.push_back(row.printed ? std::string(row.printed->source) : "");
  cells.push_back(row.printed ? Differences(*row.printed) : "");
  return cells;
}

}  // namespace

void PrintTable(const std::vector<Row>& rows) {
  const bool heads = std::ranges::any_of(rows, [](const Row& row) { return !row.head.empty(); });
  const bool memory =
      std::ranges::any_of(rows, [](const Row& row) { return row.peak_1.has_value(); });
  std::vector<std::vector<std::string>> lines = {{"model", "attention"}};
  if (heads) lines[0].emplace_back("head");
  lines[0].insert(lines[0].end(),
                  {"pixels", "parameters, M", "paper", "multiply-adds, G", "FLOPs, G", "paper"});
  if (memory) {
    lines[0].insert(lines[0].end(), {"peak at 1, MiB", "peak at 16, MiB"});
  }
  lines[0].insert(lines[0].end(), {"paper and table", "difference"});
  for (const Row& row : rows) lines.push_back(Cells(row, heads, memory));
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      size_t pipes = static_cast<size_t>(std::ranges::count(line[i], '|'));
      widths[i] = std::max(widths[i], line[i].size() + pipes);
    }
  }
  widths.back() = 0;  // the last column ends where it ends
  for (size_t n = 0; n < lines.size(); ++n) {
    for (size_t i = 0; i < lines[n].size(); ++i) {
      std::string cell;
      for (const char c : lines[n][i]) cell += c == '|' ? "\\|" : std::string(1, c);
      std::printf("| %-*s ", static_cast<int>(widths[i]), cell.c_str());
    }
    std::printf("|\n");
    if (n > 0) continue;
    for (const size_t width : widths)
      std::printf("|%s", std::string(std::max<size_t>(width, 1) + 2, '-').c_str());
    std::printf("|\n");
  }
}

void PrintJson(const std::vector<Row>& rows) {
  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json one = {{"backbone", row.backbone},
                                  {"attention", row.attention},
                                  {"image_height", row.size.height},
                                  {"image_width", row.size.width},
                                  {"parameters", std::llround(row.parameters_m * 1e6)},
                                  {"multiply_adds", std::llround(row.multiply_adds_g * 1e9)}};
    if (!row.head.empty()) one["head"] = row.head;
    if (row.peak_1) one["peak_bytes_1"] = *row.peak_1;
    if (row.peak_16) one["peak_bytes_16"] = *row.peak_16;
    if (row.printed != nullptr) {
      one["printed"] = {{"source", row.printed->source},
                        {"parameters_m", row.printed->parameters},
                        {"operations_g", row.printed->operations},
                        {"operations_per_multiply_add", row.printed->operations_per_multiply_add},
                        {"parameters_differ", row.printed->parameters_differ},
                        {"operations_differ", row.printed->operations_differ}};
    }
    table.push_back(one);
  }
  std::cout << table.dump(2) << '\n';
}

}  // namespace fovea::models
