// Where a chain's rows lie, by every kind of products.
#include "kernels/linear/chain_layout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "kernels/linear/packed_matrix.h"

namespace fovea::kernels {
namespace {

struct Kind {
  Products products;
  bool tiled;
  std::string name;
};

// Sizes alone: on any processor.
class ChainLayoutTest : public testing::TestWithParam<Kind> {
 protected:
  bool bf16() const {
    return GetParam().products == Products::kBf16 || GetParam().products == Products::kInt8;
  }
  bool by_tiles() const { return GetParam().tiled && GetParam().products != Products::kInt8; }

  // Layers of so many channels, with nothing between them.
  std::vector<LinearStep> Steps(const std::vector<int64_t>& channels) {
    std::vector<LinearStep> steps;
    for (size_t i = 0; i + 1 < channels.size(); ++i) {
      matrices_.emplace_back(at::zeros({channels[i + 1], channels[i]}), at::Tensor(),
                             GetParam().products, GetParam().tiled);
      steps.push_back({.matrix = &matrices_.back()});
    }
    return steps;
  }

 private:
  std::deque<PackedMatrix> matrices_;
};

TEST_P(ChainLayoutTest, PartsOfATileDoNotOverlapAndFitL2) {
  for (const std::vector<int64_t>& channels : {std::vector<int64_t>{32, 16},
                                               {192, 576},
                                               {192, 192, 768, 192},
                                               {75, 130, 48},
                                               {512, 512, 2048, 500},
                                               {256, 2048, 256, 64},
                                               {8192, 64}}) {
    std::vector<LinearStep> steps = Steps(channels);
    steps[0].residual = Residual::kGiven;  // its result is needed again
    for (const int64_t rows : {1, 17, 197, 5000}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(channels[1]) + " channels");
      const ChainLayout layout(steps, bf16(), rows, /*threads=*/1);
      ASSERT_FALSE(layout.by_columns());
      EXPECT_EQ(layout.shared_bytes(), 0);
      const int64_t height = layout.tile_rows(), element = bf16() ? 2 : 4;
      EXPECT_EQ(height % kRowsStep, 0);
      EXPECT_GE(height, kRowsStep);
      EXPECT_LT(height, rows + kRowsStep);
      // What is certainly needed of each part: where it begins, and bytes. An operand, a hidden
      // layer and sums are all steps', which need them one after the other.
      std::vector<std::pair<int64_t, int64_t>> parts;
      int64_t of_operand = 0, of_hidden = 0, of_sums = 0;
      for (size_t i = 0; i < steps.size(); ++i) {
        const PackedMatrix& matrix = *steps[i].matrix;
        const int64_t operand = GetParam().products == Products::kInt8     ? 1
                                : GetParam().products == Products::kBf16x3 ? 3 * 2
                                                                           : element;
        of_operand = std::max(of_operand, height * matrix.depth() * operand);
        if (layout.IsPair(i)) {
          const int64_t scale = GetParam().products == Products::kInt8 ? 4 : 0;  // of a row
          const int64_t row = layout.HiddenColumns(i) * std::max(operand, element) + scale;
          of_hidden = std::max(of_hidden, height * row);
          if (layout.DividesHidden(i)) {
            of_sums = std::max(of_sums, height * steps[i + 1].matrix->out() * 4);
          }
          ++i;
        }
        if (i + 1 < steps.size()) {
          parts.push_back({layout.ResultOffset(i), height * steps[i].matrix->out() * element});
        }
      }
      parts.push_back({layout.operand_offset(), of_operand});
      if (of_hidden > 0) parts.push_back({layout.hidden_offset(), of_hidden});
      if (of_sums > 0) parts.push_back({layout.sums_offset(), of_sums});
      const int64_t products = GetParam().tiled
                                   ? 2 * simd::kSide * simd::kSide
                                   : std::min(height, kProductRows) * PackedMatrix::kBlock;
      parts.push_back({layout.products_offset(), products * 4});
      parts.push_back({layout.thread_bytes(), 0});
      std::ranges::sort(parts);
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto& [begin, bytes] = parts[i];
        EXPECT_EQ(begin % 64, 0);
        EXPECT_LE(begin + bytes, parts[i + 1].first);
      }
      const int64_t besides = GetParam().tiled ? 0 : kProductRows * PackedMatrix::kBlock * 4;
      EXPECT_TRUE(height == kRowsStep || layout.thread_bytes() <= kChainScratch + besides);
    }
  }
}

TEST_P(ChainLayoutTest, AWideHiddenLayerIsDividedOnTilesWhereFewRowsWouldFit) {
  const std::vector<LinearStep> narrow = Steps({192, 768, 192}), wide = Steps({64, 5120, 64});
  const auto divides = [&](const std::vector<LinearStep>& steps, int64_t rows) {
    const ChainLayout layout(steps, bf16(), rows, /*threads=*/1);
    EXPECT_TRUE(layout.IsPair(0));
    EXPECT_FALSE(layout.IsPair(1));
    return layout.DividesHidden(0);
  };
  EXPECT_EQ(divides(wide, 197), by_tiles());
  EXPECT_FALSE(divides(wide, 16));
  EXPECT_FALSE(divides(narrow, 197));
}

TEST_P(ChainLayoutTest, OnlyFewRowsOfLargeWeightsAreDividedByColumns) {
  const std::vector<LinearStep> small = Steps({192, 192}), large = Steps({768, 1536, 768});
  const auto by_columns = [&](const std::vector<LinearStep>& steps, int64_t rows, int64_t threads) {
    return ChainLayout(steps, bf16(), rows, threads).by_columns();
  };
  EXPECT_TRUE(by_columns(small, 16, 2));
  EXPECT_FALSE(by_columns(small, 17, 2));
  EXPECT_TRUE(by_columns(large, 160, 2));
  EXPECT_FALSE(by_columns(large, 161, 2));
  EXPECT_FALSE(by_columns(large, 16, 1));
  // The hidden layer is shared then.
  const ChainLayout layout(large, bf16(), 100, 2);
  EXPECT_GE(layout.shared_bytes(), 100 * 1536 * (GetParam().products == Products::kInt8 ? 2 : 1));
  EXPECT_EQ(layout.tile_rows(), 112);
}

INSTANTIATE_TEST_SUITE_P(Products, ChainLayoutTest,
                         testing::Values(Kind{Products::kFp32, false, "Fp32"},
                                         Kind{Products::kBf16, false, "Bf16"},
                                         Kind{Products::kBf16, true, "Bf16OnAmx"},
                                         Kind{Products::kBf16x3, true, "Bf16x3OnAmx"},
                                         Kind{Products::kInt8, false, "Int8"},
                                         Kind{Products::kInt8, true, "Int8OnAmx"}),
                         [](const testing::TestParamInfo<Kind>& info) { return info.param.name; });

}  // namespace
}  // namespace fovea::kernels
