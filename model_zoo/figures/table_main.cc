// fovea-zoo [--memory] [--json] [NAME...]: what the models of the zoo cost, beside what their
// papers print. `fovea zoo` runs it: a program of its own, so that the command line does not have
// to load LibTorch.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/measures/memory_ledger.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/figures/operation_counter.h"
#include "model_zoo/figures/papers.h"
#include "model_zoo/model.h"
#include "model_zoo/registry.h"

namespace fovea::models {
namespace {

struct Options {
  bool memory = false;
  bool json = false;
  std::vector<std::string> names;  // empty: all
};

// One model with one attention, and what one paper prints about it.
struct Row {
  std::string backbone;
  std::string attention;  // canonical
  int64_t side = 0;
  double parameters_m = 0;
  double multiply_adds_g = 0;
  const PrintedFigures* printed = nullptr;
  // Peak bytes of the tensors of one pass, beyond the weights and the input.
  std::optional<int64_t> peak_1, peak_16;
};

ModelDescription Describe(std::string_view backbone, std::string_view attention) {
  ModelDescription description;
  description.backbone = std::string(backbone);
  if (!attention.empty()) description.attention = {std::string(attention)};
  description.random_weights_seed = 1;
  return description;
}

at::Tensor Pixels(const ModelInfo& info, int64_t images) {
  return at::randn({images, 3, info.image_height, info.image_width});
}

int64_t PeakBytes(const Model& model, int64_t images) {
  const at::Tensor pixels = Pixels(model.info(), images);
  ForwardContext context;
  const kernels::MemoryLedger ledger;
  model.Run(pixels, context);
  return ledger.peak_bytes();
}

Row Measure(std::string_view backbone, std::string_view attention, const PrintedFigures* printed,
            const Options& options) {
  const std::unique_ptr<Model> model = LoadModel(Describe(backbone, attention));
  Row row = {.backbone = std::string(backbone),
             .attention = model->info().attention,
             .side = model->info().image_height,
             .parameters_m = static_cast<double>(model->info().parameters) / 1e6,
             .printed = printed};
  {
    const at::Tensor pixels = Pixels(model->info(), 1);
    ForwardContext context;
    const OperationCounter counter;
    model->Run(pixels, context);
    row.multiply_adds_g = static_cast<double>(counter.multiply_adds()) / 1e9;
  }
  if (options.memory) {
    model->Prepare(c10::kCPU, Precision::kFp32);
    row.peak_1 = PeakBytes(*model, 1);
    row.peak_16 = PeakBytes(*model, 16);
  }
  return row;
}

std::vector<Row> Rows(const Options& options) {
  std::vector<Row> rows;
  for (const BackboneEntry& entry : Backbones()) {
    if (!options.names.empty() &&
        std::ranges::find(options.names, entry.name) == options.names.end()) {
      continue;
    }
    if (entry.make(Describe(entry.name, ""))->parameters().empty()) continue;  // computes nothing
    bool printed = false;
    for (const PrintedFigures& figures : FiguresInPapers()) {
      if (figures.backbone != entry.name) continue;
      rows.push_back(Measure(entry.name, figures.attention, &figures, options));
      printed = true;
    }
    if (!printed) rows.push_back(Measure(entry.name, "", nullptr, options));
  }
  return rows;
}

std::string Fixed(double value, int digits) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string Mebibytes(const std::optional<int64_t>& bytes) {
  return bytes ? Fixed(static_cast<double>(*bytes) / (1 << 20), 1) : "";
}

std::vector<std::string> Cells(const Row& row, const Options& options) {
  std::vector<std::string> cells = {row.backbone,
                                    row.attention,
                                    std::to_string(row.side),
                                    Fixed(row.parameters_m, 2),
                                    row.printed ? std::string(row.printed->parameters) : "",
                                    Fixed(row.multiply_adds_g, 2),
                                    Fixed(2 * row.multiply_adds_g, 2)};
  std::string operations;
  if (row.printed && !row.printed->operations.empty()) {
    operations = std::string(row.printed->operations) +
                 (row.printed->operations_per_multiply_add == 2 ? " FLOPs" : "");
  }
  cells.push_back(operations);
  if (options.memory) {
    cells.push_back(Mebibytes(row.peak_1));
    cells.push_back(Mebibytes(row.peak_16));
  }
  cells.push_back(row.printed ? std::string(row.printed->source) : "");
  cells.push_back(row.printed ? std::string(row.printed->difference) : "");
  return cells;
}

// As Markdown, which reads well in a terminal too.
void PrintTable(const std::vector<Row>& rows, const Options& options) {
  std::vector<std::vector<std::string>> lines = {{"model", "attention", "pixels", "parameters, M",
                                                  "paper", "multiply-adds, G", "FLOPs, G",
                                                  "paper"}};
  if (options.memory) {
    lines[0].insert(lines[0].end(), {"peak at 1, MiB", "peak at 16, MiB"});
  }
  lines[0].insert(lines[0].end(), {"printed in", "difference"});
  for (const Row& row : rows) lines.push_back(Cells(row, options));
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
                                  {"image_side", row.side},
                                  {"parameters", std::llround(row.parameters_m * 1e6)},
                                  {"multiply_adds", std::llround(row.multiply_adds_g * 1e9)}};
    if (row.peak_1) one["peak_bytes_1"] = *row.peak_1;
    if (row.peak_16) one["peak_bytes_16"] = *row.peak_16;
    if (row.printed != nullptr) {
      one["printed"] = {{"source", row.printed->source},
                        {"parameters_m", row.printed->parameters},
                        {"operations_g", row.printed->operations},
                        {"operations_per_multiply_add", row.printed->operations_per_multiply_add},
                        {"difference", row.printed->difference}};
    }
    table.push_back(one);
  }
  std::cout << table.dump(2) << '\n';
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--memory") {
      options.memory = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--help" || argument.starts_with("-")) {
      const bool help = argument == "--help";
      std::fprintf(help ? stdout : stderr,
                   "Usage: fovea-zoo [--memory] [--json] [MODEL...]\n"
                   "Parameters and multiply-adds of the zoo's models, beside what papers print; "
                   "with --memory also the peak of a pass's tensors at batch 1 and 16.\n");
      return help ? 0 : 2;
    } else if (FindBackbone(argument) == nullptr) {
      std::fprintf(stderr, "fovea-zoo: there is no backbone '%s'\n", argv[i]);
      return 2;
    } else {
      options.names.emplace_back(argument);
    }
  }
  const std::vector<Row> rows = Rows(options);
  if (options.json) {
    PrintJson(rows);
  } else {
    PrintTable(rows, options);
  }
  return 0;
}

}  // namespace
}  // namespace fovea::models

int main(int argc, char** argv) { return fovea::models::Main(argc, argv); }
