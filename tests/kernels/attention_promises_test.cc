// What every attention operator promises alike, in every implementation: numbers at any scale, the
// output's layout, inputs read in place and left alone, empty batches, threads, NaN.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernels/attention_case.h"
#include "tests/kernels/helpers_share.h"
#include "tests/kernels/map_cases.h"
#include "tests/kernels/token_set_cases.h"

namespace fovea::kernels {
namespace {

// One call of each, with all that it takes.
std::vector<AttentionCase> OneOfEach(at::ScalarType type, const Scale& scale = std::nullopt) {
  const Tensors tokens = RandomTokens(2, 4, 37, 32, type);
  const Tensors maps = RandomMaps(2, 4, 6, 8, 32, type);
  return {
      DenseCase(tokens, at::randn({4, 37, 37}), scale),
      WithMargin(KnnCase(tokens, 11, at::randn({4, 37, 37}), scale)),
      WithMargin(KnnExactCase(tokens, 11, at::randn({4, 37, 37}), scale)),
      StaticKeyCase(RandomStaticKey(2, 4, 37, 29, 32, type), {}, scale),
      StaticKeyCase(RandomStaticKey(2, 4, 37, 29, 32, type), {"star_relu", 0.7, -0.2}, scale),
      ConvStaticKeyCase(RandomConvStaticKey(2, 4, {4, 9}, 32, true, true, type), {4, 9}, {}, scale),
      ConvStaticKeyCase(RandomConvStaticKey(2, 4, {4, 9}, 32, false, true, type), {4, 9}, {"gelu"},
                        scale),
      WindowCase(maps, {3, 4}, {1, 2}, at::randn({4, 12, 12}), scale),
      WindowCase(maps, {1, 8}, {0, 0}, {}, scale),
      CrissCrossCase(maps, scale),
      AxialCase(RandomAxial(2, 4, {6, 8}, 32, 5, true, true, type), 5, 2, scale)};
}

// Bit for bit; NaN is like NaN.
bool Same(const at::Tensor& a, const at::Tensor& b) {
  return at::allclose(a, b, /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true);
}

AttentionCase With(AttentionCase c, size_t input, const at::Tensor& tensor) {
  c.inputs[input] = tensor;
  return c;
}

class AttentionPromisesTest : public VariantTest {
 protected:
  // Bit for bit; but the reference's products are another library's, which may cut their sums
  // as threads and strides suggest.
  void ExpectSame(const AttentionCase& c, const at::Tensor& output,
                  const at::Tensor& expected) const {
    if (is_reference()) {
      ExpectWithinRounding(output, Expected(c));
    } else {
      EXPECT_TRUE(Same(output, expected));
    }
  }
};

class AttentionNumbersTest : public NumbersTest {};

TEST_P(AttentionNumbersTest, AreRightAtAnyScale) {
  for (const Scale scale : {Scale(), Scale(-0.25), Scale(1e-30), Scale(0.0), Scale(1.5)}) {
    SCOPED_TRACE(scale.value_or(std::nan("")));
    for (const AttentionCase& c : OneOfEach(type(), scale)) ExpectRight(c);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionNumbersTest, EveryType(), TypeOf);

TEST_P(AttentionPromisesTest, TheOutputLiesAsTheNextProjectionWantsIt) {
  for (const AttentionCase& c : OneOfEach(type())) {
    SCOPED_TRACE(c.name);
    const at::Tensor output = RunAs(variant(), c);
    EXPECT_EQ(output.scalar_type(), type());
    EXPECT_EQ(output.sizes(), c.inputs[0].sizes());
    EXPECT_TRUE(output.movedim(1, -2).is_contiguous()) << output.strides();
    Tensors nowhere;
    for (const at::Tensor& t : c.inputs) nowhere.push_back(t.defined() ? t.to(at::kMeta) : t);
    const at::Tensor meta = c.run(nowhere);
    EXPECT_EQ(meta.sizes(), output.sizes());
    EXPECT_EQ(meta.strides(), output.strides());
    EXPECT_EQ(meta.scalar_type(), output.scalar_type());
  }
}

TEST_P(AttentionPromisesTest, InputsAreNotWritten) {
  for (const AttentionCase& c : OneOfEach(type())) {
    SCOPED_TRACE(c.name);
    Tensors before;
    for (const at::Tensor& t : c.inputs) before.push_back(t.defined() ? t.clone() : t);
    RunAs(variant(), c);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(!before[i].defined() || c.inputs[i].equal(before[i])) << "input " << i;
    }
  }
}

TEST_P(AttentionPromisesTest, StridesDoNotMatter) {
  // Each input in turn, where it lies in other ways.
  const auto wider = [](const at::Tensor& t) {  // odd strides, from the second channel on
    return at::constant_pad_nd(t, {1, t.size(-1) % 2}).narrow(-1, 1, t.size(-1));
  };
  const auto turned = [](const at::Tensor& t) {  // all but the last dimension the other way round
    std::vector<int64_t> order(t.dim());
    for (int64_t i = 0; i < t.dim(); ++i) order[i] = i == t.dim() - 1 ? i : t.dim() - 2 - i;
    return t.permute(order).contiguous().permute(order);
  };
  for (const AttentionCase& c : OneOfEach(type())) {
    SCOPED_TRACE(c.name);
    const at::Tensor expected = RunAs(variant(), c);
    const Rounded truth = Expected(c);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      SCOPED_TRACE(i);
      const at::Tensor& t = c.inputs[i];
      if (!t.defined()) continue;
      ExpectSame(c, RunAs(variant(), With(c, i, t.contiguous())), expected);
      ExpectSame(c, RunAs(variant(), With(c, i, turned(t))), expected);
      const at::Tensor odd = RunAs(variant(), With(c, i, wider(t)));
      if (type() == at::kBFloat16) {
        // Where channels do not lie in pairs, bf16's products are made in fp32.
        ExpectWithinRounding(odd, truth);
      } else {
        ExpectSame(c, odd, expected);
      }
    }
  }
}

TEST_P(AttentionPromisesTest, OverlappingAndRepeatedKeysAreReadInPlace) {
  if (is_reference())
    GTEST_SKIP() << "ATen's to read, and rounding would decide between equal keys";
  for (const AttentionCase& c : OneOfEach(type())) {
    SCOPED_TRACE(c.name);
    for (size_t i = 0; i < 3; ++i) {
      SCOPED_TRACE(i);
      const at::Tensor& t = c.inputs[i];
      const bool weight = i == 2 && t.size(-1) == 3;  // a convolution's
      if (weight) continue;
      const at::Tensor repeated = t.narrow(-2, 0, 1).expand_as(t);
      EXPECT_TRUE(Same(RunAs(variant(), With(c, i, repeated)),
                       RunAs(variant(), With(c, i, repeated.contiguous()))));
      std::vector<int64_t> strides(t.dim(), 2);
      strides.back() = 1;
      const at::Tensor sliding = t.reshape(-1).as_strided(t.sizes(), strides);
      EXPECT_TRUE(Same(RunAs(variant(), With(c, i, sliding)),
                       RunAs(variant(), With(c, i, sliding.contiguous()))));
    }
  }
}

TEST_P(AttentionPromisesTest, NoBatchAndNoHeadsAreAnEmptyAnswer) {
  for (const AttentionCase& c : OneOfEach(type())) {
    SCOPED_TRACE(c.name);
    AttentionCase no_batch = c;
    for (at::Tensor& t : no_batch.inputs) {
      const bool per_image = t.defined() && t.dim() >= 4 && t.size(-1) == 32;
      if (per_image) t = t.narrow(0, 0, 0);
    }
    std::vector<int64_t> sizes = c.inputs[0].sizes().vec();
    sizes[0] = 0;
    EXPECT_EQ(RunAs(variant(), no_batch).sizes(), at::IntArrayRef(sizes));

    AttentionCase no_heads = c;
    for (at::Tensor& t : no_heads.inputs) {
      if (!t.defined()) continue;
      const bool per_image = t.dim() >= 4 && t.size(-1) == 32;
      t = t.narrow(per_image ? 1 : 0, 0, 0);
    }
    sizes = c.inputs[0].sizes().vec();
    sizes[1] = 0;
    EXPECT_EQ(RunAs(variant(), no_heads).sizes(), at::IntArrayRef(sizes));
  }
}

TEST_P(AttentionPromisesTest, ResultsDoNotDependOnTheNumberOfThreads) {
  for (const AttentionCase& c : OneOfEach(type())) {
    SCOPED_TRACE(c.name);
    const at::Tensor one = RunAs(variant(), c);
    at::set_num_threads(2);
    const at::Tensor two = RunAs(variant(), c);
    at::set_num_threads(1);
    ExpectSame(c, two, one);
  }
}

// NaN or infinity in a channel of a query or a key makes those rows NaN that it would in PyTorch,
// and changes no row that does not see it.
TEST_P(AttentionPromisesTest, WhatIsNotFiniteSpoilsTheRowsThatSeeItOnly) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const AttentionCase& c : OneOfEach(type())) {
    SCOPED_TRACE(c.name);
    const bool exact = c.name.find("exact") != std::string::npos;
    const at::Tensor before = RunAs(variant(), c);
    for (const double bad : {std::nan(""), infinity, -infinity}) {
      SCOPED_TRACE(bad);
      if (exact && !std::isnan(bad)) continue;  // knn_exact_test.cc
      const at::Tensor query = c.inputs[0].clone();
      query.select(0, 1).select(0, 2).flatten(0, -2)[17][3] = bad;
      const AttentionCase spoilt = With(c, 0, query);
      const at::Tensor output = RunAs(variant(), spoilt);
      const at::Tensor nan = Expected(spoilt).value.isnan();
      EXPECT_TRUE(nan.any().item<bool>());
      EXPECT_TRUE(output.isnan().equal(nan));
      if (!std::isnan(bad)) continue;
      const auto sound = [&](const at::Tensor& t) { return t.masked_fill(nan, 0); };
      if (is_reference()) {
        ExpectWithinRounding(sound(output), Expected(c).Map(sound));
      } else {
        EXPECT_TRUE(Same(sound(output), sound(before)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, AttentionPromisesTest,
                         testing::ValuesIn(EveryVariantAndType()), NameOf);

TEST(AttentionThreadsTest, TwoThreadsShareTheWork) {
  const Variant avx2{"", Implementation::kCpu, simd::Isa::kAvx2};
  if (const char* why = CannotRun(avx2)) GTEST_SKIP() << why;
  const Tensors maps = RandomMaps(2, 4, 56, 56, 32, at::kFloat);
  for (const AttentionCase& c :
       {DenseCase(RandomTokens(8, 4, 784, 64, at::kFloat)),
        ConvStaticKeyCase(RandomConvStaticKey(4, 4, {14, 14}, 32, true, true, at::kFloat),
                          {14, 14}),
        WindowCase(maps, {14, 14}, {7, 7}), CrissCrossCase(maps)}) {
    SCOPED_TRACE(c.name);
    EXPECT_GT(HelpersShare([&] { RunAs(avx2, c); }), kSharedByTwo);
  }
}

}  // namespace
}  // namespace fovea::kernels
