#include "client/cpp/cli/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace fovea::client {
namespace {

std::string Printed(const Table& table, bool colour = false) {
  std::ostringstream out;
  table.Print(out, colour);
  return out.str();
}

TEST(Table, AlignsTextLeftAndNumbersRightWithoutTrailingSpaces) {
  Table table({{"NAME"}, {"ms", Table::Align::kRight}, {"NOTE"}});
  table.AddRow({"a", "1.00", "x"});
  table.AddRow({"longer", "1234.00", ""});
  EXPECT_EQ(Printed(table),
            "NAME         ms  NOTE\n"
            "a          1.00  x\n"
            "longer  1234.00\n");
}

TEST(Table, MeasuresCharactersRatherThanBytes) {
  Table table({{"LABEL"}, {"N", Table::Align::kRight}});
  table.AddRow({"Käfer", "1"});
  table.AddRow({"abcdef", "2"});
  EXPECT_EQ(Printed(table),
            "LABEL   N\n"
            "Käfer   1\n"
            "abcdef  2\n");
}

TEST(Table, ShortensLongCells) {
  Table table({{"LABEL", Table::Align::kLeft, 5}});
  table.AddRow({"123456"});
  EXPECT_EQ(Printed(table), "LABEL\n1234…\n");
}

TEST(Table, LetsNoEscapeSequenceThrough) {
  Table table({{"LABEL"}});
  table.AddRow({"\033[31mred\n"});
  EXPECT_EQ(Printed(table), "LABEL\n?[31mred?\n");
}

TEST(Table, IsBoldOnlyInItsTitlesAndOnlyWithColour) {
  Table table({{"A"}});
  table.AddRow({"b"});
  EXPECT_EQ(Printed(table, true), "\033[1mA\033[0m\nb\n");
}

}  // namespace
}  // namespace fovea::client
