// fovea-kernels [--json]: which implementation of each operator runs on this machine, and what was
// chosen by measurement. `fovea kernels` runs it: a program of its own, so that the command line
// does not have to load LibTorch.
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/lost_output.h"
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

std::string Joined(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : ", ") + word;
  return joined;
}

void PrintCudaBuild(const CudaBuild& build) {
  if (build.types.empty()) {
    std::printf("CUDA kernels: none in this build\n");
  } else {
    std::printf("CUDA kernels: %s for %s\n", Joined(build.types).c_str(),
                Joined(build.architectures).c_str());
  }
}

void PrintJson(const std::vector<OperatorRow>& rows, const std::vector<ChoiceAnswer>& choices) {
  using Json = nlohmann::ordered_json;
  const CudaBuild cuda = CudaBuildOfThisLibrary();
  Json all = {{"operators", Json::array()},
              {"cuda", {{"types", cuda.types}, {"architectures", cuda.architectures}}},
              {"choices", Json::array()}};
  for (const OperatorRow& row : rows) {
    all["operators"].push_back({{"operator", row.op},
                                {"device", row.device},
                                {"type", row.type},
                                {"implementation", row.implementation},
                                {"instructions", row.instructions},
                                {"note", row.note}});
  }
  for (const auto& [question, answer, source] : choices) {
    all["choices"].push_back({{"question", question}, {"answer", answer}, {"how", TextOf(source)}});
  }
  std::cout << all.dump(2) << '\n';
}

}  // namespace
}  // namespace fovea::kernels

int main(int argc, char** argv) {
  fovea::FailWhereOutputIsLost("fovea-kernels");
  const bool json = argc == 2 && std::string_view(argv[1]) == "--json";
  if (argc > 1 && !json) {
    const bool help = std::string_view(argv[1]) == "--help";
    std::fprintf(help ? stdout : stderr,
                 "Usage: fovea-kernels [--json]\n"
                 "Which implementation of each operator runs on this machine, and why no faster "
                 "one does;\n"
                 "for which types and architectures it was built on CUDA;\n"
                 "then what was chosen by measurement, as \"question: answer (how)\".\n"
                 "FOVEA_CHOOSE=question=answer[,question=answer...] forces such answers.\n");
    return help ? 0 : 2;
  }
  try {
    const auto rows = fovea::kernels::OperatorTable();
    const auto choices = fovea::kernels::ChoiceTable();
    if (json) {
      fovea::kernels::PrintJson(rows, choices);
      return 0;
    }
    fovea::kernels::PrintTable(rows);
    std::printf("\n");
    fovea::kernels::PrintCudaBuild(fovea::kernels::CudaBuildOfThisLibrary());
    for (const auto& [question, answer, source] : choices) {
      std::printf("%s: %s (%s)\n", question.c_str(), answer.c_str(),
                  std::string(TextOf(source)).c_str());
    }
  } catch (const c10::Error& error) {  // of FOVEA_CHOOSE
    std::fprintf(stderr, "fovea-kernels: %s\n", error.what_without_backtrace());
    return 2;
  }
  return 0;
}
