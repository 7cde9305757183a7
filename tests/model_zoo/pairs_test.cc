// Every backbone with every attention: which pairs run, and why the others are refused when the
// model loads. The table is docs/pairs.md, which this test compares with what it finds; with
// FOVEA_WRITE_PAIRS=1 it writes the file instead.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/registry.h"

namespace fovea::models {
namespace {

const std::vector<std::string>& Attentions() {
  static const std::vector<std::string> texts = {"dense",
                                                 "dense:temperature=0.5",
                                                 "knn:k=0.5",
                                                 "knn:k=0.5,exact",
                                                 "knn:k=100",
                                                 "self",
                                                 "shifted_window",
                                                 "shifted_window/knn:k=0.5",
                                                 "axial",
                                                 "criss_cross",
                                                 "pale",
                                                 "cross_shaped",
                                                 "aewin",
                                                 "ska",
                                                 "ska:activation=gelu,scale=1",
                                                 "cska",
                                                 "key_only",
                                                 "conv"};
  return texts;
}

// The reasons that model_zoo/attention/README.md allows, by a word of their sentence.
std::string Reason(const std::string& error) {
  const std::pair<const char*, const char*> reasons[] = {
      {"tokens that lie on a map", "prefix tokens"},
      {"heads", "heads"},
      {"a query sees only", "keys"},
      {"has no attention", "no attention"},
  };
  for (const auto& [words, reason] : reasons) {
    if (error.find(words) != error.npos) return reason;
  }
  return "";
}

at::Tensor Logits(const Backbone& backbone, const at::Tensor& pixels) {
  ForwardContext context;
  return backbone.forward(pixels, context).at(0).to(at::kFloat);
}

// "runs", or why it is refused. A pair that runs gives, prepared and with the fastest kernels, what
// it gives trainable with the reference ones.
std::string Outcome(const BackboneEntry& entry, const std::string& attention) {
  ModelDescription description;
  description.backbone = entry.name;
  description.attention = {attention};
  std::shared_ptr<Backbone> backbone;
  try {
    backbone = entry.make_tiny(description);
  } catch (const c10::ValueError& error) {
    const std::string reason = Reason(error.msg());
    EXPECT_NE(reason, "") << entry.name << " " << attention << ": " << error.msg();
    return reason;
  }
  const at::NoGradGuard no_grad;
  backbone->Initialise(7);
  const ModelInfo& info = backbone->info();
  const at::Tensor pixels = at::randn({1, 3, info.image_height, info.image_width},
                                      at::make_generator<at::CPUGeneratorImpl>(3));
  at::Tensor expected;
  {
    const kernels::ScopedForcedImplementation forced(kernels::Implementation::kReference);
    expected = Logits(*backbone, pixels);
  }
  backbone->Prepare({});
  const at::Tensor logits = Logits(*backbone, pixels);
  EXPECT_TRUE(logits.isfinite().all().item<bool>()) << entry.name << " " << attention;
  const double error = ((logits - expected).abs().max() / expected.std()).item<double>();
  // Which of two keys with nearly the same logit k-NN attention keeps is decided by rounding.
  const bool selects = attention.find("knn") != attention.npos;
  EXPECT_LE(error, selects ? 3e-2 : 1e-3) << entry.name << " " << attention;
  return "runs";
}

// One line for neighbours in the registry that behave alike.
std::string Table() {
  struct Line {
    std::vector<std::string> backbones;
    std::vector<std::string> cells;
  };
  std::vector<Line> lines;
  for (const BackboneEntry& entry : Backbones()) {
    if (entry.make({.backbone = entry.name})->parameters().empty()) continue;  // has no attention
    std::vector<std::string> cells;
    for (const std::string& attention : Attentions()) cells.push_back(Outcome(entry, attention));
    if (!lines.empty() && lines.back().cells == cells) {
      lines.back().backbones.push_back(entry.name);
    } else {
      lines.push_back({{entry.name}, cells});
    }
  }
  std::ostringstream table;
  table << "| backbone |";
  for (const std::string& attention : Attentions()) table << " `" << attention << "` |";
  table << "\n|---|";
  for (size_t i = 0; i < Attentions().size(); ++i) table << "---|";
  table << "\n";
  for (const Line& line : lines) {
    table << "| ";
    for (size_t i = 0; i < line.backbones.size(); ++i) {
      table << (i > 0 ? ", " : "") << line.backbones[i];
    }
    table << " |";
    for (const std::string& cell : line.cells) table << " " << cell << " |";
    table << "\n";
  }
  return table.str();
}

constexpr const char* kBegin = "<!-- pairs: written by pairs_test -->\n";
constexpr const char* kEnd = "<!-- end of pairs -->\n";

TEST(PairsTest, EveryBackboneTimesEveryAttention) {
  const std::string path = FOVEA_PAIRS;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string page = text.str();
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_NE(begin, page.npos) << path;
  ASSERT_NE(end, page.npos) << path;
  const size_t table_begin = begin + std::string(kBegin).size();
  const std::string found = Table();
  if (std::getenv("FOVEA_WRITE_PAIRS") != nullptr) {
    std::ofstream(path) << page.substr(0, table_begin) << found << page.substr(end);
    return;
  }
  EXPECT_EQ(page.substr(table_begin, end - table_begin), found)
      << "FOVEA_WRITE_PAIRS=1 writes what is found";
}

}  // namespace
}  // namespace fovea::models
