// fovea-zoo [OPTIONS] [MODEL...]: what the models of the zoo cost, beside what their papers print,
// or with any attention. `fovea zoo` runs it: a program of its own, so that the command line does
// not have to load LibTorch.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/memory/memory_ledger.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/costs/operation_counter.h"
#include "model_zoo/costs/papers.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/load.h"

namespace fovea::models {
namespace {

constexpr char kUsage[] =
    R"(What the architectures cost: parameters and multiply-adds, beside what papers print.

Usage: fovea zoo [OPTIONS] [MODEL...]

Arguments:
  MODEL                     Names of the registry (default: all)

Options:
  --memory                  Also the peak of a pass's tensors at batch 1 and 16
  --attention TEXT          With this attention in place of the papers' (repeatable; needs a MODEL)
  --image-size N            With N x N pixels in place of the published size (needs a MODEL)
  --json                    Print JSON instead of a table
  -h,--help                 Print this help message and exit

Examples:
  fovea zoo
  fovea zoo --memory swin_tiny_patch4_window7_224
  fovea zoo --memory --attention dense --attention key_only --image-size 448 linglo_b0
)";

struct Options {
  bool memory = false;
  bool json = false;
  std::vector<std::string> attentions;  // empty: the published one, and those of the papers' tables
  int64_t image_size = 0;               // 0: the published one
  std::vector<std::string> names;       // empty: all
};

// Ends the program with 2: what was asked for cannot be.
[[noreturn]] void Refuse(const std::string& why) {
  std::fprintf(stderr, "fovea-zoo: %s\n", why.c_str());
  std::exit(2);
}

// One model with one attention, and what one paper prints about it.
struct Row {
  std::string backbone;
  std::string attention;  // canonical
  int64_t side = 0;
  double parameters_m = 0;
  double multiply_adds_g = 0;
  const PrintedCosts* printed = nullptr;
  // Peak bytes of the tensors of one pass, beyond the weights and the input.
  std::optional<int64_t> peak_1, peak_16;
};

ModelDescription Describe(std::string_view backbone, std::string_view attention,
                          int64_t image_size) {
  ModelDescription description;
  description.name = std::string(backbone);
  description.backbone = std::string(backbone);
  description.image_height = description.image_width = image_size;
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

Row Measure(std::string_view backbone, std::string_view attention, const PrintedCosts* printed,
            const Options& options) {
  const std::unique_ptr<Model> model = LoadModel(Describe(backbone, attention, options.image_size));
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
    if (entry.make(Describe(entry.name, "", 0))->parameters().empty()) continue;  // no model
    for (const std::string& attention : options.attentions) {
      rows.push_back(Measure(entry.name, attention, nullptr, options));
    }
    if (!options.attentions.empty()) continue;
    bool printed = false;
    for (const PrintedCosts& row : CostsInPapers()) {
      if (options.image_size != 0) break;  // papers print those of the published size
      if (row.backbone != entry.name) continue;
      rows.push_back(Measure(entry.name, row.attention, &row, options));
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

std::string Differences(const PrintedCosts& printed) {
  const std::string parameters(printed.parameters_differ), operations(printed.operations_differ);
  if (operations.empty() || operations == parameters) return parameters;  // of both
  return parameters + (parameters.empty() ? "FLOPs: " : "; FLOPs: ") + operations;
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
  cells.push_back(row.printed ? Differences(*row.printed) : "");
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
  lines[0].insert(lines[0].end(), {"paper and table", "difference"});
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
                        {"parameters_differ", row.printed->parameters_differ},
                        {"operations_differ", row.printed->operations_differ}};
    }
    table.push_back(one);
  }
  std::cout << table.dump(2) << '\n';
}

Options Parse(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (++i == arguments.size()) Refuse(argument + " needs a value");
      return arguments[i];
    };
    if (argument == "--help" || argument == "-h") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    } else if (argument == "--memory") {
      options.memory = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--attention") {
      options.attentions.push_back(value());
    } else if (argument == "--image-size") {
      const std::string& text = value();
      const char* end = text.data() + text.size();
      const auto [rest, error] = std::from_chars(text.data(), end, options.image_size);
      if (error != std::errc() || rest != end || options.image_size <= 0) {
        Refuse("--image-size '" + text + "' is not a number of pixels");
      }
    } else if (argument.starts_with("-")) {
      Refuse("unknown option '" + argument + "'; `fovea zoo --help` lists them");
    } else if (FindBackbone(argument) == nullptr) {
      Refuse("there is no backbone '" + argument + "'");
    } else {
      options.names.push_back(argument);
    }
  }
  // Not every backbone takes every attention and size: one that is named is meant.
  if (options.names.empty() && (!options.attentions.empty() || options.image_size != 0)) {
    Refuse("--attention and --image-size need a MODEL");
  }
  return options;
}

int Main(int argc, char** argv) {
  const Options options = Parse({argv + 1, argv + argc});
  std::vector<Row> rows;
  try {
    rows = Rows(options);
  } catch (const c10::Error& error) {
    Refuse(error.what_without_backtrace());
  }
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
