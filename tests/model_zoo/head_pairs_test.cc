// Every backbone with every head: which pairs run, and why the others are refused when the model
// loads. docs/models/pairs.md carries the table, which this test compares with what it finds; with
// FOVEA_WRITE_PAIRS=1 it writes it there instead.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/heads/headed_backbone.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/heads.h"

namespace fovea::models {
namespace {

// The reasons for which a pair is refused, by words of their sentence.
std::string Reason(const std::string& error) {
  if (error.find("stands on feature maps") != error.npos) return "maps";
  if (error.find("torchvision has none") != error.npos) return "conventions";
  return "";
}

// What a detector computes before it picks: random weights find hundreds of boxes with nearly one
// score, of which rounding picks.
struct BeforePicking final : ForwardContext {
  void Record(std::string_view layer, std::string_view /*name*/,
              const at::Tensor& tensor) override {
    if (layer.starts_with("head.level")) recorded.push_back(tensor);
  }
  bool Recording() const override { return true; }
  std::vector<at::Tensor> recorded;
};

void ExpectShapes(const std::vector<at::Tensor>& outputs, const ModelInfo& info, int64_t images) {
  ASSERT_EQ(outputs.size(), info.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<int64_t>& shape = info.outputs[i].shape;
    ASSERT_EQ(outputs[i].dim(), 1 + std::ssize(shape));
    EXPECT_EQ(outputs[i].size(0), images);
    for (size_t side = 0; side < shape.size(); ++side) {
      if (shape[side] == -1) continue;
      EXPECT_EQ(outputs[i].size(1 + side), shape[side]) << info.outputs[i].name;
    }
  }
}

// Trainable and prepared it gives the same.
void ExpectRuns(Backbone& network, const HeadEntry& head) {
  constexpr int64_t images = 2;
  network.Initialise(1);
  network.eval();
  const ModelInfo& info = network.info();
  EXPECT_EQ(info.num_classes, 3);
  const at::Tensor pixels = at::randn({images, 3, info.image_height, info.image_width},
                                      at::make_generator<at::CPUGeneratorImpl>(1));
  BeforePicking trainable, prepared;
  std::vector<at::Tensor> expected = network.forward(pixels, trainable);
  network.Prepare({});
  const std::vector<at::Tensor> outputs_of_batch = network.forward(pixels, prepared);
  std::vector<at::Tensor> found = outputs_of_batch;
  if (head.task == Task::kDetection) {
    expected = trainable.recorded;
    found = prepared.recorded;
  }
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const double scale = expected[i].abs().max().item<double>();
    EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-3, 1e-3 * scale)) << i;
  }
  const std::vector<ImageSize> contents(images, {info.image_height, info.image_width});
  const std::vector<at::Tensor> outputs = network.Finish(outputs_of_batch, contents);
  ExpectShapes(outputs, info, images);
  if (head.task == Task::kDetection) {
    EXPECT_TRUE((outputs[3] > 0).all().item<bool>()) << "random weights see something";
  } else {
    EXPECT_GE(outputs[0].size(2), info.image_height / info.features[0].stride - 1)
        << "patches may overlap";
    EXPECT_GT(outputs[0].std().item<double>(), 0);
  }
}

// One picture, prepared. Of torchvision's detectors there is nothing to compare: the group norms of
// a place's few numbers are rounding. The parity tests compare them.
void ExpectRunsPrepared(Backbone& network) {
  network.Initialise(1);
  network.eval();
  network.Prepare({});
  const ModelInfo& info = network.info();
  const at::Tensor pixels = at::randn({1, 3, info.image_height, info.image_width},
                                      at::make_generator<at::CPUGeneratorImpl>(1));
  ForwardContext context;
  const std::vector<ImageSize> contents(1, {info.image_height, info.image_width});
  const std::vector<at::Tensor> outputs =
      network.Finish(network.forward(pixels, context), contents);
  ExpectShapes(outputs, info, 1);
  for (const at::Tensor& output : outputs) EXPECT_TRUE(output.isfinite().all().item<bool>());
  EXPECT_GT(outputs[3].item<int64_t>(), 0) << "random weights see something";
}

// A head by the conventions of one library.
struct Tried {
  HeadEntry head;
  Conventions conventions;
  std::string text;  // for the table
};

std::vector<Tried> AllTried() {
  std::vector<Tried> all;
  for (const HeadEntry& head : Heads()) {
    if (head.make == nullptr) continue;  // each backbone's own
    const std::string name = "`" + head.name + "`";
    all.push_back({head, Conventions::kMmdetection, name});
    if (head.task != Task::kDetection) continue;
    all.push_back({head, Conventions::kTorchvision, name + " by `TORCHVISION`"});
  }
  return all;
}

// "runs", or why it is refused.
std::string Outcome(const BackboneEntry& entry, const Tried& tried) {
  SCOPED_TRACE(tried.text + " on " + entry.name);
  ModelDescription description{
      .backbone = entry.name, .task = tried.head.task, .head = tried.head.name};
  description.detection.conventions = tried.conventions;
  description.detection.score_threshold = 1e-3;  // an untrained detector is sure of nothing
  description.head_channels = 32;                // what they cost is not of interest
  description.num_classes = ModelDescription::kNoClasses;
  const std::shared_ptr<Backbone> backbone = entry.make_tiny(description);
  description.num_classes = 3;
  try {
    const std::shared_ptr<Backbone> network = WithHead(backbone, tried.head, description);
    if (tried.conventions == Conventions::kMmdetection) {
      ExpectRuns(*network, tried.head);
    } else {
      ExpectRunsPrepared(*network);
    }
    return "runs";
  } catch (const c10::ValueError& error) {
    EXPECT_NE(Reason(error.msg()), "") << error.msg();
    return Reason(error.msg());
  }
}

void Append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

// One line for all backbones that behave alike.
std::string Table() {
  const at::NoGradGuard no_grad;
  const std::vector<Tried> all = AllTried();
  std::string names;
  for (const Tried& tried : all) Append(names, tried.text);
  std::vector<std::pair<std::string, std::string>> lines;  // what is refused, the backbones
  for (const BackboneEntry& entry : Backbones()) {
    std::vector<std::pair<std::string, std::string>> reasons;  // and the heads
    for (const Tried& tried : all) {
      const std::string outcome = Outcome(entry, tried);
      if (outcome == "runs") continue;
      auto found = std::ranges::find(reasons, outcome, &std::pair<std::string, std::string>::first);
      if (found == reasons.end()) found = reasons.insert(found, {outcome, ""});
      Append(found->second, tried.text);
    }
    std::string refused;
    for (const auto& [reason, heads] : reasons) {
      refused += (refused.empty() ? "" : "; ") + heads + " (" + reason + ")";
    }
    auto same = std::ranges::find(lines, refused, &std::pair<std::string, std::string>::first);
    if (same == lines.end()) same = lines.insert(same, {refused, ""});
    Append(same->second, entry.name);
  }
  std::ostringstream table;
  table << "Tried: " << names << ".\n\n| backbones | all but |\n|---|---|\n";
  for (const auto& [refused, backbones] : lines) {
    table << "| " << backbones << " | " << (refused.empty() ? "none" : refused) << " |\n";
  }
  return table.str();
}

constexpr const char* kBegin = "<!-- heads: written by head_pairs_test -->\n";
constexpr const char* kEnd = "<!-- end of heads -->\n";

TEST(HeadPairsTest, EveryBackboneTimesEveryHead) {
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
