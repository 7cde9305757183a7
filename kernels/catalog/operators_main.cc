// fovea-kernels [--json]: which implementation of each operator runs on this machine. `fovea
// kernels` runs it: a program of its own, so that the command line does not have to load LibTorch.
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/catalog/operators.h"

namespace fovea::kernels {
namespace {

using Cells = std::array<std::string, 6>;

Cells CellsOf(const OperatorRow& row) {
  return {row.op, row.device, row.type, row.implementation, row.instructions, row.note};
}

void PrintTable(const std::vector<OperatorRow>& rows) {
  std::vector<Cells> lines = {{"operator", "device", "type", "runs here", "instructions", "note"}};
  for (const OperatorRow& row : rows) lines.push_back(CellsOf(row));
  std::array<size_t, 6> widths{};
  for (const Cells& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const Cells& line : lines) {
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      std::printf("%-*s  ", static_cast<int>(widths[i]), line[i].c_str());
    }
    std::printf("%s\n", line.back().c_str());
  }
}

void PrintJson(const std::vector<OperatorRow>& rows) {
  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  for (const OperatorRow& row : rows) {
    table.push_back({{"operator", row.op},
                     {"device", row.device},
                     {"type", row.type},
                     {"implementation", row.implementation},
                     {"instructions", row.instructions},
                     {"note", row.note}});
  }
  std::cout << table.dump(2) << '\n';
}

}  // namespace
}  // namespace fovea::kernels

int main(int argc, char** argv) {
  const bool json = argc == 2 && std::string_view(argv[1]) == "--json";
  if (argc > 1 && !json) {
    const bool help = std::string_view(argv[1]) == "--help";
    std::fprintf(help ? stdout : stderr,
                 "Usage: fovea-kernels [--json]\n"
                 "Which implementation of each operator runs on this machine, and why no faster "
                 "one does.\n");
    return help ? 0 : 2;
  }
  try {
    const auto rows = fovea::kernels::OperatorTable();
    if (json) {
      fovea::kernels::PrintJson(rows);
      return 0;
    }
    const auto linear = fovea::kernels::LinearTable();
    fovea::kernels::PrintTable(rows);
    std::printf("\n");
    for (const auto& [type, way, how] : linear) {
      std::printf("linear layers on the cpu in %s: %s (%s)\n", type.c_str(), way.c_str(),
                  how.c_str());
    }
    for (const auto& [question, answer, how] : fovea::kernels::ChoiceTable()) {
      std::printf("%s: %s (%s)\n", question.c_str(), answer.c_str(), how.c_str());
    }
  } catch (const c10::Error& error) {  // of FOVEA_CHOOSE
    std::fprintf(stderr, "fovea-kernels: %s\n", error.what_without_backtrace());
    return 2;
  }
  return 0;
}
