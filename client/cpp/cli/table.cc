#include "client/cpp/cli/table.h"

#include <algorithm>
#include <utility>

#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

std::string Padded(const std::string& cell, size_t width, Table::Align align) {
  const std::string space(width - Width(cell), ' ');
  return align == Table::Align::kLeft ? cell + space : space + cell;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    cells[i] = Shortened(Printable(cells[i]), columns_[i].max_width);
  }
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out, bool colour) const {
  std::vector<std::string> titles;
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    widths.push_back(Width(columns_[i].title));
    for (const auto& row : rows_) widths[i] = std::max(widths[i], Width(row[i]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      text += Padded(cells[i], widths[i], columns_[i].align) + "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  out << (colour ? "\033[1m" : "") << line(titles) << (colour ? "\033[0m" : "") << '\n';
  for (const auto& row : rows_) out << line(row) << '\n';
}

}  // namespace fovea::client
