// An aligned table for people. Pure.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace fovea::client {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    size_t max_width = 60;  // longer cells are shortened
  };

  explicit Table(std::vector<Column> columns);

  // One cell a column. Cells are made printable.
  void AddRow(std::vector<std::string> cells);

  // Two spaces between columns, and none at a line's end; the titles are bold where `colour`.
  void Print(std::ostream& out, bool colour) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fovea::client
