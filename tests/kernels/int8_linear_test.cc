// Linear layers in 8 bits against plain code, bit for bit, by every kind of products that this
// machine has.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/linear/cpu_int8.h"
#include "kernels/linear/linear_chain.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "tests/kernels/chain_of_steps.h"

namespace fovea::kernels {
namespace {

using rows::Activation;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// How 8-bit numbers are multiplied, and the type of the rows around them.
struct Way {
  simd::Isa isa;
  bool tiled;
  at::ScalarType type;
  std::string name;
};

std::vector<Way> Ways() {
  return {{simd::Isa::kAvx512, true, at::kBFloat16, "OnAmxBetweenBf16"},
          {simd::Isa::kAvx512, false, at::kBFloat16, "ByVectorsBetweenBf16"},
          {simd::Isa::kAvx512, false, at::kFloat, "ByVectorsBetweenFp32"},
          {simd::Isa::kAvx2, false, at::kFloat, "ByAvx2BetweenFp32"}};
}

struct Layer {
  Layer(int64_t in, int64_t out, const Way& way, bool calibrated = false)
      : weight(at::randn({out, in}) / std::sqrt(in)),
        bias(at::randn({out})),
        norm_weight(at::rand({in}) + 0.5),
        norm_bias(at::randn({in})),
        scale(at::randn({out})),
        // So that some values are clipped.
        input_scales(calibrated ? (at::rand({in}) + 0.5) * (2.0 / 127) : at::Tensor()),
        matrix(weight, bias, Products::kInt8, way.tiled, input_scales),
        norm{norm_weight.const_data_ptr<float>(), norm_bias.const_data_ptr<float>(), 1e-6f} {}
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  at::Tensor weight, bias, norm_weight, norm_bias, scale, input_scales;
  PackedMatrix matrix;
  rows::NormTerms norm;
};

// Rows of integers with their scales.
struct Quantised {
  at::Tensor values;  // FP32 [count, columns], whole numbers
  at::Tensor scales;  // [count]
};

// By the definition, in plain code.
Quantised QuantisedPlainly(const at::Tensor& input, const at::Tensor& input_scales) {
  const at::Tensor x = input.to(at::kFloat);
  if (input_scales.defined()) {
    const at::Tensor values = (x * input_scales.reciprocal()).round().clamp(-128, 127);
    return {values.nan_to_num(0), at::where(x.isnan().any(1), kNan, 1.0f)};
  }
  const at::Tensor largest = x.abs().amax(1);
  const at::Tensor counts = largest >= 1e-30f;
  const at::Tensor finite = largest.isfinite();
  const at::Tensor inverse = at::where(counts.logical_and(finite), 127 / largest, 0.0f);
  const at::Tensor scales =
      at::where(finite, at::where(counts, largest * (1 / 127.0f), 0.0f), kNan);
  return {(x * inverse.unsqueeze(1)).round().nan_to_num(0), scales};
}

// The same as the kernels have it.
Quantised QuantisedByKernel(const at::Tensor& input, const rows::NormTerms* norm,
                            const PackedMatrix& matrix) {
  const int64_t count = input.size(0), columns = input.size(1);
  const at::Tensor values = at::zeros({count, columns}, at::kChar), scales = at::zeros({count});
  rows::Quantise(input.scalar_type() == at::kBFloat16, {input.const_data_ptr(), columns}, count,
                 columns, norm, matrix.inverse_input_scales(),
                 {values.mutable_data_ptr<int8_t>(), columns, scales.mutable_data_ptr<float>()});
  return {values.to(at::kFloat), scales};
}

// activation(row scale * column scale * integers + bias) + residual, in the order of fp32 roundings
// that the kernels promise, one number at a time.
at::Tensor Finished(const LinearStep& step, const Layer& layer, const Quantised& input,
                    const at::Tensor& residual) {
  at::Tensor weight = layer.weight;
  if (layer.input_scales.defined()) weight = weight * layer.input_scales;
  const at::Tensor largest = weight.abs().amax(1);
  const at::Tensor scales = largest / 127;
  const at::Tensor integers = (weight / scales.unsqueeze(1)).round();
  const at::Tensor products =
      at::matmul(input.values.to(at::kDouble), integers.t().to(at::kDouble));  // exact
  const at::Tensor added = residual.defined() ? residual.to(at::kFloat) : residual;
  at::Tensor output = at::empty(products.sizes(), at::kFloat);
  for (int64_t r = 0; r < output.size(0); ++r) {
    for (int64_t c = 0; c < output.size(1); ++c) {
      const float by = input.scales.const_data_ptr<float>()[r] * scales.const_data_ptr<float>()[c];
      const auto sum =
          static_cast<float>(products.const_data_ptr<double>()[r * output.size(1) + c]);
      float y = std::fma(sum, by, layer.bias.const_data_ptr<float>()[c]);
      if (step.activation != Activation::kNone && y < 0) y = 0;
      if (step.activation == Activation::kStarRelu) {
        const float square = y * y;
        y = std::fma(square, step.star_scale, step.star_bias);
      }
      if (added.defined()) {
        const float add = added.const_data_ptr<float>()[r * output.size(1) + c];
        if (step.residual_scale != nullptr) {
          y = std::fma(add, step.residual_scale[c], y);
        } else {
          y += add;
        }
      }
      output.mutable_data_ptr<float>()[r * output.size(1) + c] = y;
    }
  }
  return output;
}

bool SameNumbers(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.isnan(), b.isnan()) && at::equal(a.nan_to_num(0), b.nan_to_num(0));
}

class Int8LinearTest : public testing::TestWithParam<std::tuple<Way, bool>> {
 protected:
  void SetUp() override {
    at::manual_seed(7);
    if (way().isa > simd::BestIsa()) GTEST_SKIP() << "this processor has no such vectors";
    isa_ = std::make_unique<simd::ScopedIsa>(way().isa);
    if (way().tiled && !HasAmxTilesFor(Products::kInt8))
      GTEST_SKIP() << "this processor has no AMX";
    if (way().type == at::kBFloat16 && !simd::HasBf16Gemm()) {
      GTEST_SKIP() << "this processor has no bf16";
    }
  }

  static const Way& way() { return std::get<0>(GetParam()); }
  static bool calibrated() { return std::get<1>(GetParam()); }
  static at::Tensor Rows(int64_t count, int64_t columns) {
    return at::randn({count, columns}).to(way().type);
  }

 private:
  std::unique_ptr<simd::ScopedIsa> isa_;
};

// Rows and columns at, below and above the sizes of registers, tiles and blocks.
TEST_P(Int8LinearTest, AStepIsItsDefinitionToTheBit) {
  for (const int64_t count : {1, 15, 17, 33, 150}) {
    for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{
             {32, 16}, {64, 100}, {192, 192}, {48, 7}, {75, 130}, {300, 48}, {64, 32}}) {
      SCOPED_TRACE(std::to_string(count) + " rows, " + std::to_string(in) + " to " +
                   std::to_string(out));
      const Layer layer(in, out, way(), calibrated());
      const at::Tensor input = Rows(count, in), residual = Rows(count, out);
      for (const LinearStep& step :
           {LinearStep{}, LinearStep{.norm = &layer.norm},
            LinearStep{.activation = Activation::kRelu, .residual = Residual::kGiven},
            LinearStep{.norm = &layer.norm,
            .activation = Activation::kStarRelu,
            .star_scale = 0.8f,
            .star_bias = -0.3f,
            .residual = Residual::kGiven,
            .residual_scale = layer.scale.const_data_ptr<float>()}}) {
        LinearStep with_matrix = step;
        with_matrix.matrix = &layer.matrix;
        const bool adds = step.residual != Residual::kNone;
        const Quantised operand = step.norm != nullptr
                                      ? QuantisedByKernel(input, step.norm, layer.matrix)
                                      : QuantisedPlainly(input, layer.input_scales);
        const at::Tensor expected =
            Finished(step, layer, operand, adds ? residual : at::Tensor()).to(way().type);
        ASSERT_TRUE(at::equal(RunChain({&with_matrix, 1}, input, residual), expected));
      }
    }
  }
}

// Statistics in fp32 may move a number over the middle between two integers, but no further.
TEST_P(Int8LinearTest, NormalisedRowsAreTheNearestIntegers) {
  for (const int64_t columns : {16, 75, 192, 1000}) {
    const Layer layer(columns, 16, way(), calibrated());
    const at::Tensor input = Rows(9, columns);
    const Quantised quantised = QuantisedByKernel(input, &layer.norm, layer.matrix);
    const at::Tensor exact =
        at::layer_norm(input.to(at::kDouble), {columns}, layer.norm_weight.to(at::kDouble),
                       layer.norm_bias.to(at::kDouble), 1e-6);
    at::Tensor steps;
    if (calibrated()) {
      steps = (exact / layer.input_scales.to(at::kDouble)).clamp(-128, 127);
      EXPECT_TRUE(at::equal(quantised.scales, at::ones({9})));
    } else {
      const at::Tensor scales = exact.abs().amax(1) / 127;
      EXPECT_TRUE(at::allclose(quantised.scales.to(at::kDouble), scales, 2e-6, 0));
      steps = exact / scales.unsqueeze(1);
      EXPECT_TRUE(at::equal(quantised.values.abs().amax(1), at::full({9}, 127.0f)));
    }
    // Some 20 roundings of numbers of up to 127 (clipped ones are larger, and have no middle).
    const double most = (quantised.values.to(at::kDouble) - steps).abs().max().item<double>();
    EXPECT_LE(most, 0.5 + 20 * 127 * 0x1p-24 * (calibrated() ? 10 : 1)) << columns;
  }
}

TEST_P(Int8LinearTest, HostileRowsAreWhatTheContractSays) {
  const Layer layer(75, 20, way(), calibrated());
  const at::Tensor input = Rows(9, 75);
  input[0].zero_();
  input[1][70] = kNan;
  input[2][3] = kInfinity;
  input[3][74] = -kInfinity;
  input[4][5] = 3e38;  // the others are nothing beside it
  input[5] *= 1e-36;
  input[6][0] = 500.0f;
  const LinearStep step = {.matrix = &layer.matrix};
  const at::Tensor output = RunChain({&step, 1}, input);
  const Quantised operand = QuantisedPlainly(input, layer.input_scales);
  EXPECT_TRUE(SameNumbers(output, Finished(step, layer, operand, {}).to(way().type)));
  const at::Tensor bias = layer.bias.to(way().type);
  EXPECT_TRUE(at::equal(output[0], bias));
  EXPECT_TRUE(output[1].isnan().all().item<bool>());
  // What is calibrated clips: an infinity as much as anything.
  for (const int64_t row : {2, 3}) {
    EXPECT_EQ(output[row].isnan().all().item<bool>(), !calibrated());
    EXPECT_EQ(output[row].isnan().any().item<bool>(), !calibrated());
  }
  if (!calibrated()) {
    EXPECT_EQ(operand.values[4].abs().sum().item<float>(), 127);
    EXPECT_TRUE(at::equal(output[5], bias));
  }
  EXPECT_TRUE(output.narrow(0, 4, 5).isfinite().all().item<bool>());
  // Normalised, what is not finite is in the mean.
  const LinearStep normed = {.matrix = &layer.matrix, .norm = &layer.norm};
  const at::Tensor broken = RunChain({&normed, 1}, input);
  for (const int64_t row : {1, 2, 3}) EXPECT_TRUE(broken[row].isnan().all().item<bool>()) << row;
  for (const int64_t row : {0, 5, 6, 7, 8}) {
    EXPECT_TRUE(broken[row].isfinite().all().item<bool>()) << row;
  }
}

TEST_P(Int8LinearTest, GeluErrsByWhatIsPromised) {
  // An input of one number, and a weight that lets pass -12 to 12 of it.
  const at::Tensor weight = at::zeros({16, 64});
  weight.narrow(1, 0, 1).fill_(1.0f);
  const at::Tensor bias = at::linspace(-12, 12, 16);
  const at::Tensor input = at::zeros({129, 64}, at::kBFloat16);
  input.narrow(1, 0, 1).copy_(at::linspace(-3, 3, 129).unsqueeze(1));
  const auto run = [&](bool tiled, at::ScalarType type, Activation activation) {
    const PackedMatrix matrix(weight, bias, Products::kInt8, tiled);
    const LinearStep step = {.matrix = &matrix, .activation = activation};
    return RunChain({&step, 1}, input.to(type));
  };
  // Between rows of fp32, what GELU is given and gives is seen as it is.
  const at::Tensor x = run(false, at::kFloat, Activation::kNone).to(at::kDouble);
  const at::Tensor y = run(false, at::kFloat, Activation::kGelu);
  const at::Tensor allowed = 4e-4 * (x.abs() / 6).clamp_min(1) + 0x1p-21 * x.abs();
  EXPECT_TRUE(((y - at::gelu(x)).abs() <= allowed).all().item<bool>());
  EXPECT_FALSE(((at::gelu(x, "tanh") - at::gelu(x)).abs() <= allowed).all().item<bool>());
  if (way().type == at::kBFloat16) {
    EXPECT_TRUE(at::equal(run(way().tiled, at::kBFloat16, Activation::kGelu), y.to(at::kBFloat16)));
  }
}

TEST_P(Int8LinearTest, AChainIsItsStepsOneAfterTheOther) {
  const Layer proj(192, 192, way(), calibrated()), fc1(192, 768, way(), calibrated());
  const Layer fc2(768, 192, way());
  ExpectAChainIsItsSteps(proj, fc1, fc2,
                         [&](int64_t count, int64_t channels) { return Rows(count, channels); });
}

// With scales for its channels the hidden layer becomes integers without being rows first.
TEST_P(Int8LinearTest, ACalibratedHiddenLayerIsQuantisedAtOnce) {
  const Layer fc1(96, 128, way(), calibrated()), fc2(128, 96, way(), /*calibrated=*/true);
  at::Tensor input = Rows(37, 96);
  input[5][7] = kNan;
  const std::vector<LinearStep> steps = {{.matrix = &fc1.matrix, .activation = Activation::kRelu},
                                         {.matrix = &fc2.matrix, .residual = Residual::kInput}};
  const at::Tensor hidden = Finished(steps[0], fc1, QuantisedPlainly(input, fc1.input_scales), {});
  const at::Tensor expected =
      Finished(steps[1], fc2, QuantisedPlainly(hidden, fc2.input_scales), input).to(way().type);
  const at::Tensor output = RunChain(steps, input);
  EXPECT_TRUE(output[5].isnan().all().item<bool>());
  EXPECT_TRUE(SameNumbers(output, expected));
}

TEST_P(Int8LinearTest, RowsDoNotDependOnThreadsOrOnEachOther) {
  const Layer fc1(96, 384, way(), calibrated()), fc2(384, 96, way(), calibrated());
  const std::vector<LinearStep> steps = {
      {.matrix = &fc1.matrix, .norm = &fc1.norm, .activation = Activation::kGelu},
      {.matrix = &fc2.matrix, .residual = Residual::kInput}};
  const at::Tensor input = Rows(300, 96);
  at::set_num_threads(1);
  const at::Tensor alone = RunChain(steps, input);
  at::set_num_threads(3);
  EXPECT_TRUE(at::equal(RunChain(steps, input), alone));
  at::set_num_threads(1);
  EXPECT_TRUE(
      at::equal(RunChain(steps, input.narrow(0, 37, 20).contiguous()), alone.narrow(0, 37, 20)));
}

// Few rows and weights of more than a MiB: threads then divide the columns.
TEST_P(Int8LinearTest, DividedByColumnsItIsTheSame) {
  const bool scales = calibrated();
  const Layer proj(512, 512, way(), scales), fc1(512, 1100, way(), scales);
  const Layer fc2(1100, 700, way(), scales);
  const std::vector<LinearStep> steps = {
      {.matrix = &proj.matrix, .residual = Residual::kGiven},
      {.matrix = &fc1.matrix, .norm = &fc1.norm, .activation = Activation::kGelu},
      {.matrix = &fc2.matrix}};
  const Layer wide(512, 2048, way(), scales), narrow(2048, 512, way(), scales);
  const std::vector<LinearStep> mlp = {
      {.matrix = &wide.matrix, .norm = &wide.norm, .activation = Activation::kGelu},
      {.matrix = &narrow.matrix, .residual = Residual::kInput}};
  for (const int64_t count : {1, 16, 49, 130}) {
    const at::Tensor mixed = Rows(count, 512), tokens = Rows(count, 512);
    at::set_num_threads(1);
    const at::Tensor alone = RunChain(steps, mixed, tokens), mlp_alone = RunChain(mlp, mixed);
    for (const int threads : {2, 5}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(at::equal(RunChain(steps, mixed, tokens), alone)) << count << " " << threads;
      EXPECT_TRUE(at::equal(RunChain(mlp, mixed), mlp_alone)) << count << " " << threads;
    }
    at::set_num_threads(1);
  }
}

TEST_P(Int8LinearTest, NoRowsGiveNone) {
  const Layer layer(64, 10, way(), calibrated());
  const LinearStep step = {.matrix = &layer.matrix};
  const at::Tensor output = RunChain({&step, 1}, at::empty({2, 0, 64}, way().type));
  EXPECT_EQ(output.sizes(), at::IntArrayRef({2, 0, 10}));
}

// The largest sums there are: 127 * 127 a number, all of one sign.
TEST_P(Int8LinearTest, TheLargestSumsFit) {
  const at::Tensor weight = at::ones({16, 4096}), input = at::ones({3, 4096}, way().type);
  const PackedMatrix matrix(weight, {}, Products::kInt8, way().tiled,
                            calibrated() ? at::full({4096}, 1 / 127.0f) : at::Tensor());
  const LinearStep step = {.matrix = &matrix};
  const at::Tensor output = RunChain({&step, 1}, input);
  EXPECT_TRUE(at::allclose(output.to(at::kFloat), at::full({3, 16}, 4096.0f), 1e-6, 0));
}

INSTANTIATE_TEST_SUITE_P(Ways, Int8LinearTest,
                         testing::Combine(testing::ValuesIn(Ways()), testing::Bool()),
                         [](const testing::TestParamInfo<std::tuple<Way, bool>>& info) {
                           return std::get<0>(info.param).name +
                                  (std::get<1>(info.param) ? "Calibrated" : "ByRow");
                         });

}  // namespace
}  // namespace fovea::kernels
