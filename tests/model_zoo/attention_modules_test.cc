// The attention modules on maps against their definitions: dense attention over every place of the
// padded map, with -inf between places that do not see each other.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/factory.h"
#include "model_zoo/attention/registry/attentions.h"
#include "model_zoo/attention/relative_position_bias.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/registry/backbones.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kChannels = 32, kHeads = 4;
constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Place {
  int64_t row, column;
};
// What the logit of a head is given between two places; kNever: they do not see each other.
using LogitBias = std::function<float(int64_t head, Place query, Place key)>;

float When(bool visible) { return visible ? 0.0f : kNever; }

std::shared_ptr<AttentionModule> Module(const std::string& text, const ModuleSite& site) {
  return AttentionFactory(Attentions(), AttentionSpec::Parse(text, Attentions()),
                          "the test's backbone", nullptr)
      .Module(site);
}

ModuleSite SiteOf(int64_t height, int64_t width, int64_t block = 0, int64_t window = 4) {
  return {.channels = kChannels,
          .heads = kHeads,
          .grid = {.height = height, .width = width},
          .block = block,
          .window = window};
}

at::Tensor Random(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed));
}

void Fill(AttentionModule& module) {
  const at::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (auto& parameter : module.named_parameters()) {
    parameter.value().copy_(0.3 * Random(parameter.value().sizes(), seed++));
  }
}

double Difference(const at::Tensor& actual, const at::Tensor& expected) {
  return (actual - expected).abs().max().item<double>() / expected.std().item<double>();
}

// A module with seeded weights, and the parts of its definition.
class Case {
 public:
  Case(std::string text, ModuleSite site)
      : text_(std::move(text)), site_(site), module_(Module(text_, site)) {
    Fill(*module_);
    for (const auto& parameter : module_->named_parameters()) {
      weights_.insert(parameter.key(), parameter.value().detach().clone());
    }
    tokens_ = Random({2, site.grid.tokens(), site.channels}, 99);
  }

  const at::Tensor& weight(const std::string& name) const { return weights_[name]; }
  AttentionModule& module() { return *module_; }
  const at::Tensor& tokens() const { return tokens_; }
  const Grid& grid() const { return site_.grid; }

  // [3, B, heads, height * width, D] of the map padded to this size.
  at::Tensor Qkv(int64_t height, int64_t width) const {
    const at::Tensor map =
        at::constant_pad_nd(tokens_.view({2, grid().height, grid().width, kChannels}),
                            {0, 0, 0, width - grid().width, 0, height - grid().height});
    return at::linear(map.flatten(1, 2), weight("qkv.weight"), weight("qkv.bias"))
        .view({2, height * width, 3, site_.heads, -1})
        .permute({2, 0, 3, 1, 4});
  }

  // [B, heads, N, N] for the N places of the map padded to this size; `keep`: only so many of a
  // row's largest logits, 0: all.
  at::Tensor Weights(int64_t height, int64_t width, const LogitBias& bias,
                     const std::function<int64_t(int64_t head)>& keep = {}) const {
    const int64_t places = height * width;
    at::Tensor biases = at::empty({site_.heads, places, places});
    auto entry = biases.accessor<float, 3>();
    for (int64_t head = 0; head < site_.heads; ++head) {
      for (int64_t i = 0; i < places; ++i) {
        for (int64_t j = 0; j < places; ++j) {
          entry[head][i][j] = bias(head, {i / width, i % width}, {j / width, j % width});
        }
      }
    }
    const at::Tensor qkv = Qkv(height, width);
    at::Tensor logits =
        at::matmul(qkv[0], qkv[1].transpose(2, 3)) / std::sqrt(qkv.size(4)) + biases;
    if (keep) {
      for (int64_t head = 0; head < site_.heads; ++head) {
        at::Tensor own = logits.select(1, head);
        own.masked_fill_(own < std::get<0>(own.topk(keep(head), -1)).narrow(-1, keep(head) - 1, 1),
                         kNever);
      }
    }
    // A padded place may see nothing (in AEWin's rows and columns): it is cropped.
    return logits.softmax(-1).nan_to_num(0);
  }

  // Of the grid's places only; from [B, heads, height * width, ...].
  at::Tensor Crop(const at::Tensor& places, int64_t dim, int64_t height, int64_t width) const {
    return places.unflatten(dim, {height, width})
        .narrow(dim, 0, grid().height)
        .narrow(dim + 1, 0, grid().width)
        .flatten(dim, dim + 1);
  }

  // The module against the definition whose weights these are: trainable, prepared, its map.
  void Check(const at::Tensor& weights, int64_t height, int64_t width, double bf16_error = 2e-2) {
    const at::Tensor gathered = Crop(at::matmul(weights, Qkv(height, width)[2]), 2, height, width);
    CheckOutput(gathered, bf16_error);
    const at::Tensor map = Crop(Crop(weights, 2, height, width), 3, height, width);
    const std::shared_ptr<AttentionModule> prepared = Copy(at::kFloat);
    EXPECT_LT((prepared->Map(tokens_, grid()) - map).abs().max().item<double>(), 1e-5) << text_;
    if (height == grid().height && width == grid().width) {
      EXPECT_LT((prepared->Map(tokens_, grid()).sum(-1) - 1).abs().max().item<double>(), 1e-5);
    }
  }

  // `gathered` [B, heads, tokens, D]: what the heads should have gathered.
  void CheckOutput(const at::Tensor& gathered, double bf16_error) {
    const at::Tensor expected =
        at::linear(gathered.transpose(1, 2).flatten(2), weight("proj.weight"), weight("proj.bias"));
    EXPECT_LT(Difference(module_->forward(tokens_, grid()).detach(), expected), 1e-5) << text_;
    EXPECT_LT(Difference(Copy(at::kFloat)->forward(tokens_, grid()), expected), 1e-5) << text_;
    // Logits of bf16 queries and keys are off by their rounding.
    const at::Tensor rounded =
        Copy(at::kBFloat16)->forward(tokens_.to(at::kBFloat16), grid()).to(at::kFloat);
    EXPECT_LT(((rounded - expected).norm() / expected.norm()).item<double>(), bf16_error) << text_;
  }

 private:
  // The same module, prepared.
  std::shared_ptr<AttentionModule> Copy(c10::ScalarType dtype) const {
    const std::shared_ptr<AttentionModule> copy = Module(text_, site_);
    Fill(*copy);
    const at::NoGradGuard no_grad;
    copy->Prepare({.dtype = dtype});
    return copy;
  }

  const std::string text_;
  const ModuleSite site_;
  std::shared_ptr<AttentionModule> module_;
  torch::OrderedDict<std::string, at::Tensor> weights_;
  at::Tensor tokens_;
};

int64_t UpTo(int64_t size, int64_t window) { return (size + window - 1) / window * window; }

// Maps that a window of 4 divides, does not divide, and exceeds.
struct MapSize {
  int64_t height, width;
};
class OnMaps : public ::testing::TestWithParam<MapSize> {
 protected:
  int64_t height() const { return GetParam().height; }
  int64_t width() const { return GetParam().width; }
};
INSTANTIATE_TEST_SUITE_P(Maps, OnMaps,
                         ::testing::Values(MapSize{8, 8}, MapSize{4, 12}, MapSize{6, 9},
                                           MapSize{3, 5}, MapSize{1, 1}),
                         [](const auto& info) {
                           return std::to_string(info.param.height) + "x" +
                                  std::to_string(info.param.width);
                         });

TEST_P(OnMaps, AxialAttendsRowsAndThenColumnsOfWhatTheRowsGathered) {
  for (const int64_t k : {0, 1}) {
    Case axial(k > 0 ? "axial/knn:k=1" : "axial", SiteOf(height(), width()));
    const auto keep = [&](int64_t) { return k; };
    const auto weights = [&](const LogitBias& bias) {
      return k > 0 ? axial.Weights(height(), width(), bias, keep)
                   : axial.Weights(height(), width(), bias);
    };
    const at::Tensor rows = weights([](int64_t, Place a, Place b) { return When(a.row == b.row); });
    const at::Tensor columns =
        weights([](int64_t, Place a, Place b) { return When(a.column == b.column); });
    // Of keys that nearly tie, rounding picks the one that is kept.
    axial.Check(at::matmul(columns, rows), height(), width(), k > 0 ? 0.2 : 2e-2);
  }
}

TEST_P(OnMaps, CrissCrossAttendsTheRowAndTheColumnAtOnce) {
  Case criss_cross("criss_cross", SiteOf(height(), width()));
  const auto bias = [](int64_t, Place a, Place b) {
    return When(a.row == b.row || a.column == b.column);
  };
  criss_cross.Check(criss_cross.Weights(height(), width(), bias), height(), width());
}

TEST_P(OnMaps, CrossShapedAttendsStripesOfNeighbouringLines) {
  const int64_t tall = std::min<int64_t>(4, height()), wide = std::min<int64_t>(4, width());
  const int64_t padded_height = UpTo(height(), tall), padded_width = UpTo(width(), wide);
  const auto bias = [&](int64_t head, Place a, Place b) {
    return When(head < kHeads / 2 ? a.row / tall == b.row / tall
                                  : a.column / wide == b.column / wide);
  };
  Case cross_shaped("cross_shaped", SiteOf(height(), width()));
  cross_shaped.Check(cross_shaped.Weights(padded_height, padded_width, bias), padded_height,
                     padded_width);
}

TEST_P(OnMaps, PaleAttendsLinesThatAreSpreadOverTheMap) {
  const int64_t tall = std::min<int64_t>(4, height()), wide = std::min<int64_t>(4, width());
  const int64_t padded_height = UpTo(height(), tall), padded_width = UpTo(width(), wide);
  const auto bias = [&](int64_t head, Place a, Place b) {
    const int64_t apart = head < kHeads / 2 ? padded_height / tall : padded_width / wide;
    return When(head < kHeads / 2 ? a.row % apart == b.row % apart
                                  : a.column % apart == b.column % apart);
  };
  Case pale("pale", SiteOf(height(), width()));
  pale.Check(pale.Weights(padded_height, padded_width, bias), padded_height, padded_width);
}

// AEWin's definition on a map.
class AewinDefinition {
 public:
  AewinDefinition(const Case& own, int64_t block)
      : own_(own),
        window_(std::min<int64_t>(4, std::max(own.grid().height, own.grid().width))),
        shift_(block % 2 == 1 && window_ < std::min(own.grid().height, own.grid().width)
                   ? window_ / 2
                   : 0),
        height_(UpTo(own.grid().height, window_)),
        width_(UpTo(own.grid().width, window_)) {}

  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  int64_t window() const { return window_; }

  float operator()(int64_t head, Place a, Place b) const {
    const auto lies_on_map = [&](Place place) {
      return place.row < own_.grid().height && place.column < own_.grid().width;
    };
    const bool real = lies_on_map(a) && lies_on_map(b);
    const int64_t down = a.row - b.row, right = a.column - b.column;
    if (head < kHeads / 4) {
      return real && down == 0 ? Learned("bias_rows", right + own_.grid().width - 1, head) : kNever;
    }
    if (head < kHeads / 2) {
      return real && right == 0
                 ? Learned("bias_columns", down + own_.grid().height - 1, head - kHeads / 4)
                 : kNever;
    }
    const bool together = Part(a.row, height_) == Part(b.row, height_) &&
                          Part(a.column, width_) == Part(b.column, width_);
    return together ? Learned("bias_window",
                              (down + window_ - 1) * (2 * window_ - 1) + right + window_ - 1,
                              head - kHeads / 2)
                    : kNever;
  }

 private:
  // The window that a line lies in once the map is rolled; lines that were rolled around lie in a
  // part of their own.
  std::pair<int64_t, bool> Part(int64_t line, int64_t size) const {
    return {(line - shift_ + size) % size / window_, line < shift_};
  }
  float Learned(const std::string& table, int64_t distance, int64_t head) const {
    return own_.weight(table).index({distance, head}).item<float>();
  }

  const Case& own_;
  const int64_t window_, shift_, height_, width_;
};

TEST_P(OnMaps, AewinAttendsRowsColumnsAndShiftedWindowsSideBySide) {
  for (const int64_t block : {0, 1}) {
    Case aewin("aewin", SiteOf(height(), width(), block));
    const AewinDefinition definition(aewin, block);
    aewin.Check(aewin.Weights(definition.height(), definition.width(), definition),
                definition.height(), definition.width());
  }
}

TEST_P(OnMaps, AewinWithACoreAttendsTheSamePlaces) {
  const ModuleSite site = SiteOf(height(), width(), /*block=*/1);
  Case all("aewin/knn:k=1.0", site);  // every key: dense attention
  const AewinDefinition definition(all, site.block);
  all.Check(all.Weights(definition.height(), definition.width(), definition), definition.height(),
            definition.width());
}

TEST(AttentionModulesTest, AShareOfTheKeysIsOneOfEachGroupsKeys) {
  const int64_t height = 8, width = 4;
  Case striped("cross_shaped/knn:k=0.5,window=2", SiteOf(height, width));
  striped.Check(
      striped.Weights(
          height, width,
          [](int64_t head, Place a, Place b) {
            return When(head < kHeads / 2 ? a.row / 2 == b.row / 2 : a.column / 2 == b.column / 2);
          },
          [&](int64_t head) { return head < kHeads / 2 ? width : height; }),
      height, width);
  Case aewin("aewin/knn:k=0.5", SiteOf(height, width));
  const AewinDefinition definition(aewin, 0);
  aewin.Check(
      aewin.Weights(height, width, definition,
                    [&](int64_t head) {
                      return head < kHeads / 4 ? width / 2 : head < kHeads / 2 ? height / 2 : 8;
                    }),
      height, width);
}

TEST(AttentionModulesTest, TemperatureDividesTheLogitsOfAewinToo) {
  Case plain("aewin", SiteOf(8, 8)), cold("aewin:temperature=0.5", SiteOf(8, 8)),
      grouped("aewin/knn:k=1.0,temperature=0.5", SiteOf(8, 8));
  const at::Tensor expected = grouped.module().forward(grouped.tokens(), grouped.grid()).detach();
  EXPECT_LT(Difference(cold.module().forward(cold.tokens(), cold.grid()).detach(), expected), 1e-5);
  EXPECT_GT(Difference(plain.module().forward(plain.tokens(), plain.grid()).detach(), expected),
            1e-2);
}

TEST(AttentionModulesTest, GradientsReachEveryParameter) {
  for (const char* text : {"axial", "criss_cross", "pale", "cross_shaped", "aewin"}) {
    Case trained(text, SiteOf(6, 9));
    trained.module().forward(trained.tokens(), trained.grid()).square().sum().backward();
    for (const auto& parameter : trained.module().named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << text << " " << parameter.key();
      EXPECT_GT(parameter.value().grad().abs().max().item<double>(), 0)
          << text << " " << parameter.key();
    }
  }
}

TEST(AttentionModulesTest, WhatCannotStandThereIsRefusedInWords) {
  const auto error = [](const std::string& text, const ModuleSite& site) {
    return ErrorOf([&] { Module(text, site); });
  };
  ModuleSite with_class_token = SiteOf(8, 8);
  with_class_token.grid.prefix_tokens = 1;
  ModuleSite three_heads = SiteOf(8, 8);
  three_heads.channels = 24;
  three_heads.heads = 3;
  ModuleSite two_heads = three_heads;
  two_heads.heads = 2;
  for (const char* text : {"axial", "criss_cross", "pale", "cross_shaped", "aewin"}) {
    EXPECT_THAT(error(text, with_class_token),
                HasSubstr("cannot stand in the test's backbone: it needs tokens that lie on a map"))
        << text;
  }
  EXPECT_THAT(
      error("pale", three_heads),
      HasSubstr("it splits its heads into 2 equal parts, which 3 heads do not divide into"));
  EXPECT_THAT(error("cross_shaped", three_heads), HasSubstr("2 equal parts"));
  EXPECT_THAT(
      error("aewin", two_heads),
      HasSubstr("it splits its heads into 4 equal parts, which 2 heads do not divide into"));
  EXPECT_EQ(error("axial", three_heads), "no error");
  EXPECT_EQ(error("criss_cross", three_heads), "no error");
  EXPECT_THAT(error("axial/knn:k=9", SiteOf(8, 12)), HasSubstr("a query sees only 8 keys"));
  EXPECT_THAT(error("cross_shaped/knn:k=17,window=2", SiteOf(8, 12)),
              HasSubstr("a query sees only 16 keys"));
}

TEST(AttentionModulesTest, TablesOfAnotherMapAreInterpolatedAlongTheirAxes) {
  const std::shared_ptr<AttentionModule> module = Module("aewin", SiteOf(6, 9));
  const at::Tensor rows = Random({2 * 7 - 1, 1}, 3), window = Random({13 * 13, 2}, 4);
  EXPECT_TRUE(at::equal(module->Resized("bias_rows", rows),
                        ResizeRelativePositionTable(rows, {1, 7}, {1, 9})));
  EXPECT_TRUE(at::equal(module->Resized("bias_columns", rows),
                        ResizeRelativePositionTable(rows, {1, 7}, {1, 6})));
  EXPECT_TRUE(at::equal(module->Resized("bias_window", window),
                        ResizeRelativePositionTable(window, {7, 7}, {4, 4})));
  EXPECT_THAT(module->Resized("bias_rows", rows).sizes(), ElementsAre(17, 1));
  EXPECT_THAT(module->Resized("bias_columns", rows).sizes(), ElementsAre(11, 1));
  EXPECT_THAT(module->Resized("bias_window", window).sizes(), ElementsAre(49, 2));
  const at::Tensor even = Random({12, 1}, 5);
  EXPECT_TRUE(at::equal(module->Resized("bias_rows", even), even));  // no table: left to be refused
}

TEST(AttentionModulesTest, AModuleOfTheBackbonesOwnGoesBeforeTheRegistrysOfTheSameName) {
  bool asked = false;
  const AttentionFactory factory(
      Attentions(), AttentionSpec::Parse("cross_shaped", Attentions()), "the test's backbone",
      [&](const AttentionSpec&, const ModuleSite& site, const AttentionFactory&) {
        asked = true;
        return Module("axial", site);
      },
      "cross_shaped");
  factory.Module(SiteOf(8, 8));
  EXPECT_TRUE(asked);
}

// Keeps how far the rows of each layer's map are from a sum of one.
class MapSums final : public ForwardContext {
 public:
  bool Recording() const override { return true; }
  bool WantsMaps() const override { return true; }
  void RecordMap(std::string_view /*layer*/, const at::Tensor& weights, const Grid& grid) override {
    ++maps;
    EXPECT_EQ(weights.size(2), grid.tokens());
    worst = std::max(worst, (weights.sum(-1) - 1).abs().max().item<double>());
  }
  int maps = 0;
  double worst = 0;
};

std::shared_ptr<Backbone> Tiny(const std::string& name, const std::string& attention) {
  std::shared_ptr<Backbone> backbone = FindBackbone(name)->make_tiny(
      {.backbone = name, .attention = {attention}, .image_height = 112, .image_width = 112});
  const at::NoGradGuard no_grad;
  backbone->Initialise(1);
  backbone->eval();
  return backbone;
}

TEST(WindowedBackbonesTest, TakeEachOthersAttentionsAndShowTheirMaps) {
  // 112 pixels: maps of 28, 14, 7 and 4 tokens a side.
  const at::Tensor pixels = Random({1, 3, 112, 112}, 5);
  const at::NoGradGuard no_grad;
  for (const char* name :
       {"swin_tiny_heads4_224", "aewin_base_224", "cswin_base_224", "pale_base_224"}) {
    for (const char* text : {"dense", "self", "shifted_window", "axial", "criss_cross", "pale",
                             "cross_shaped", "aewin", "knn:k=0.5"}) {
      const std::shared_ptr<Backbone> backbone = Tiny(name, text);
      MapSums recorder;
      const at::Tensor logits = backbone->forward(pixels, recorder).at(0);
      EXPECT_GT(recorder.maps, 0) << name << " " << text;
      EXPECT_LT(recorder.worst, 1e-4) << name << " " << text;
      ForwardContext plain;
      EXPECT_LT(Difference(backbone->forward(pixels, plain).at(0), logits), 1e-4)
          << name << " " << text;
      const int64_t before = backbone->WeightBytes();
      backbone->Prepare({.dtype = at::kBFloat16});
      EXPECT_LT(backbone->WeightBytes(), before) << name << " " << text;
      const at::Tensor rounded = backbone->forward(pixels, plain).at(0).to(at::kFloat);
      EXPECT_LT(((rounded - logits).norm() / logits.norm()).item<double>(), 0.1)
          << name << " " << text;
    }
  }
}

TEST(WindowedBackbonesTest, HeadsThatDoNotDivideAreRefusedForTheirStage) {
  EXPECT_EQ(ErrorOf([] { Tiny("cswin_tiny_224", "aewin"); }),
            "attention 'aewin' cannot stand in stage 1 of cswin_tiny_224: it splits its heads into "
            "4 equal parts, which 2 heads do not divide into");
}

}  // namespace
}  // namespace fovea::models
