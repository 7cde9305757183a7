// What the vectorised kernels share, on each instruction set that this machine has.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/simd_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/exp-inl.h"
#include "kernels/simd/multiply-inl.h"
#include "kernels/simd/transpose-inl.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

void Exp2All(const float* x, int64_t count, float* fp32, float* bf16) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, x + i);
    hn::StoreU(Exp2<ExpPrecision::kFp32>(d, v), d, fp32 + i);
    hn::StoreU(Exp2<ExpPrecision::kBf16>(d, v), d, bf16 + i);
  }
}

void Transpose32All(const uint32_t* src, int64_t src_stride, int64_t rows, int64_t cols,
                    uint32_t* dst, int64_t dst_stride) {
  Transpose32(src, src_stride, rows, cols, dst, dst_stride);
}

void Transpose16All(const uint16_t* src, int64_t src_stride, int64_t rows, int64_t cols,
                    uint16_t* dst, int64_t dst_stride) {
  Transpose16(src, src_stride, rows, cols, dst, dst_stride);
}

void RoundTrip(const float* src, int64_t count, uint16_t* bf16, float* back) {
  Fp32ToBf16(src, count, bf16);
  Bf16ToFp32(bf16, count, back);
}

// a [rows rounded up, depth], b [depth, columns], c [rows, columns].
void MultiplyColumnsAll(const float* a, const float* b, int64_t rows, int64_t depth,
                        int64_t columns, const float* row_factors, float* c) {
  MultiplyColumns({a, depth, 1, b, columns, depth}, rows, columns, c, columns, row_factors);
}

// `columns` is two vectors.
void MultiplyRowsAll(const float* a, const float* b, int64_t rows, int64_t depth, float* c) {
  const int64_t columns = 2 * hn::Lanes(hn::ScalableTag<float>());
  MultiplyRows<2>({a, depth, 1, b, columns, depth}, rows, c, columns);
}

int64_t FloatLanes() { return hn::Lanes(hn::ScalableTag<float>()); }

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"

namespace fovea::kernels {
namespace {

class SimdTest : public testing::TestWithParam<simd::Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > simd::BestIsa()) GTEST_SKIP() << "this processor lacks the instructions";
    isa_.emplace(GetParam());
  }

  std::vector<float> Normal(int64_t count) {
    std::vector<float> values(count);
    for (float& v : values) v = normal_(generator_);
    return values;
  }

  std::mt19937 generator_{23};
  std::normal_distribution<float> normal_;
  std::optional<simd::ScopedIsa> isa_;
};

TEST_P(SimdTest, Exp2IsWithinItsBounds) {
  constexpr int64_t kCount = 1 << 16;
  std::vector<float> x(kCount), fp32(kCount), bf16(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    x[i] = -126.0f + 127.0f * static_cast<float>(i) / static_cast<float>(kCount - 1);
  }
  FOVEA_SIMD_CHOOSE(Exp2All)(x.data(), kCount, fp32.data(), bf16.data());
  for (int64_t i = 0; i < kCount; ++i) {
    const double exact = std::exp2(static_cast<double>(x[i]));
    ASSERT_LE(std::abs(fp32[i] / exact - 1.0), 1.2e-7) << x[i];
    ASSERT_LE(std::abs(bf16[i] / exact - 1.0), 3e-6) << x[i];
  }
}

TEST_P(SimdTest, Exp2OfWhatUnderflowsIsNextToNothing) {
  std::vector<float> x(16, -std::numeric_limits<float>::infinity()), fp32(16), bf16(16);
  x[1] = -200.0f;
  x[2] = -3e38f;
  x[3] = 0.0f;
  FOVEA_SIMD_CHOOSE(Exp2All)(x.data(), 16, fp32.data(), bf16.data());
  for (const int i : {0, 1, 2}) EXPECT_LE(fp32[i], 1.2e-38f);
  EXPECT_EQ(fp32[3], 1.0f);
}

template <class T, class F>
void ExpectTransposes(F transpose) {
  for (const int64_t rows : {1, 3, 4, 8, 15, 16, 17, 40, 197}) {
    for (const int64_t cols : {1, 2, 4, 5, 8, 31, 32, 64}) {
      const int64_t src_stride = cols + 3, dst_stride = rows + 2;
      std::vector<T> src(rows * src_stride), dst(cols * dst_stride, T{0xABCD});
      for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<T>(i * 7919);
      transpose(src.data(), src_stride, rows, cols, dst.data(), dst_stride);
      for (int64_t c = 0; c < cols; ++c) {
        for (int64_t r = 0; r < dst_stride; ++r) {
          const T expected = r < rows ? src[r * src_stride + c] : T{0xABCD};
          ASSERT_EQ(dst[c * dst_stride + r], expected) << rows << "x" << cols;
        }
      }
    }
  }
}

TEST_P(SimdTest, TransposesOfAnySizeWriteTheirPlacesAndNoOthers) {
  ExpectTransposes<uint32_t>(FOVEA_SIMD_CHOOSE(Transpose32All));
  ExpectTransposes<uint16_t>(FOVEA_SIMD_CHOOSE(Transpose16All));
}

TEST_P(SimdTest, Bf16RoundsToNearestEvenAndKeepsNaN) {
  std::vector<float> values = Normal(101);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float full_mantissa_nan;
  const uint32_t bits = 0x7FFFFFFFu;  // would round to -0 if it were a number
  std::memcpy(&full_mantissa_nan, &bits, sizeof(bits));
  values.insert(values.end(), {0.0f, -0.0f, 1.0f, 1.00390625f, 1.01171875f, 3.4e38f, INFINITY,
                               -INFINITY, nan, full_mantissa_nan});
  std::vector<uint16_t> bf16(values.size());
  std::vector<float> back(values.size());
  FOVEA_SIMD_CHOOSE(RoundTrip)(values.data(), values.size(), bf16.data(), back.data());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(back[i])) << i;
    } else if (std::isfinite(back[i])) {
      EXPECT_LE(std::abs(back[i] - values[i]), std::abs(values[i]) * 0x1p-8) << values[i];
    }
  }
  EXPECT_EQ(back[101 + 3], 1.0f);       // halfway between 1 and 1 + 2^-7: even is below
  EXPECT_EQ(back[101 + 4], 1.015625f);  // halfway again: even is above
  EXPECT_EQ(back[101 + 5], INFINITY);   // above the largest bf16
  EXPECT_EQ(back[101 + 7], -INFINITY);
}

TEST_P(SimdTest, ProductsOfAnySizeAreRight) {
  for (const int64_t rows : {1, 4, 7, 8, 13, 32}) {
    for (const int64_t depth : {1, 5, 64}) {
      for (const int64_t columns : {1, 7, 8, 16, 24, 33, 64, 100}) {
        const std::vector<float> a = Normal((rows + 8) * depth), b = Normal(depth * columns);
        const std::vector<float> factors = Normal(rows + 8);
        std::vector<float> c(rows * columns);
        FOVEA_SIMD_CHOOSE(MultiplyColumnsAll)
        (a.data(), b.data(), rows, depth, columns, factors.data(), c.data());
        for (int64_t m = 0; m < rows; ++m) {
          for (int64_t n = 0; n < columns; ++n) {
            double sum = 0;
            for (int64_t k = 0; k < depth; ++k)
              sum += double{a[m * depth + k]} * b[k * columns + n];
            ASSERT_NEAR(c[m * columns + n], sum * factors[m], 1e-4) << rows << " " << columns;
          }
        }
      }
      const int64_t columns = 2 * FOVEA_SIMD_CHOOSE(FloatLanes)();
      const std::vector<float> a = Normal(rows * depth), b = Normal(depth * columns);
      std::vector<float> c(rows * columns);
      FOVEA_SIMD_CHOOSE(MultiplyRowsAll)(a.data(), b.data(), rows, depth, c.data());
      for (int64_t m = 0; m < rows; ++m) {
        for (int64_t n = 0; n < columns; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < depth; ++k) sum += double{a[m * depth + k]} * b[k * columns + n];
          ASSERT_NEAR(c[m * columns + n], sum, 1e-4) << rows;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, SimdTest,
                         testing::Values(simd::Isa::kAvx2, simd::Isa::kAvx512),
                         [](const testing::TestParamInfo<simd::Isa>& info) {
                           return std::string(info.param == simd::Isa::kAvx2 ? "AVX2" : "AVX512");
                         });

TEST(Bf16GemmTest, MultipliesPairs) {
  if (!simd::HasBf16Gemm()) GTEST_SKIP() << "this processor has no bf16 products";
  constexpr int64_t kRows = 21, kColumns = 48, kDepth = 34, kAStride = 50;
  const auto integer = [](int64_t i) { return static_cast<float>((i * 7919) % 15 - 7); };
  const auto bf16 = [](float x) {  // exact for small integers
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    return static_cast<uint16_t>(bits >> 16);
  };
  std::vector<uint16_t> a(kRows * kAStride), b(kDepth * kColumns);
  for (int64_t i = 0; i < kRows * kAStride; ++i) a[i] = bf16(integer(i));
  for (int64_t k = 0; k < kDepth; ++k) {
    for (int64_t n = 0; n < kColumns; ++n) {
      b[k / 2 * 2 * kColumns + 2 * n + k % 2] = bf16(integer(3 * k + 5 * n));
    }
  }
  std::vector<float> c(kRows * kColumns);
  simd::Bf16Gemm(kRows, kColumns, kDepth, a.data(), kAStride, b.data(), kColumns, c.data(),
                 kColumns);
  simd::ReleaseBf16Gemm();
  for (int64_t m = 0; m < kRows; ++m) {
    for (int64_t n = 0; n < kColumns; ++n) {
      float sum = 0;
      for (int64_t k = 0; k < kDepth; ++k)
        sum += integer(m * kAStride + k) * integer(3 * k + 5 * n);
      ASSERT_EQ(c[m * kColumns + n], sum);
    }
  }
}

}  // namespace
}  // namespace fovea::kernels
#endif  // HWY_ONCE
