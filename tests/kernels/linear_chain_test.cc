// Chains of linear layers against fp64, and against their steps one after the other, by every kind
// of products that this machine has.
#include "kernels/linear/linear_chain.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/linear/packed_matrix.h"
#include "tests/kernels/chain_of_steps.h"
#include "tests/kernels/rounding.h"

namespace fovea::kernels {
namespace {

using rows::Activation;

// Products, and whether AMX takes them or oneDNN does.
struct Way {
  Products products;
  bool tiled;
  std::string name;
};

std::vector<Way> Ways() {
  return {{Products::kFp32, false, "Fp32"},
          {Products::kBf16, false, "Bf16"},
          {Products::kBf16, true, "Bf16OnAmx"},
          {Products::kBf16x3, true, "Bf16x3OnAmx"}};
}

// What a layer is made of.
struct Layer {
  Layer(int64_t in, int64_t out, const Way& way)
      : weight(at::randn({out, in}) / std::sqrt(in)),
        bias(at::randn({out})),
        norm_weight(at::rand({in}) + 0.5),
        norm_bias(at::randn({in})),
        scale(at::randn({out})),
        matrix(weight, bias, way.products, way.tiled),
        norm{norm_weight.const_data_ptr<float>(), norm_bias.const_data_ptr<float>(), 1e-6f} {}
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  at::Tensor weight, bias, norm_weight, norm_bias, scale;
  PackedMatrix matrix;
  rows::NormTerms norm;
};

class LinearChainTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    at::manual_seed(7);
    const Way& way = GetParam();
    if (!HasProducts(way.products) || (way.tiled && !HasAmxTilesFor(way.products))) {
      GTEST_SKIP() << "this processor has no such products";
    }
  }

  at::ScalarType type() const {
    return GetParam().products == Products::kBf16 ? at::kBFloat16 : at::kFloat;
  }
  at::Tensor Rows(int64_t count, int64_t columns) const {
    return at::randn({count, columns}).to(type());
  }

  // What the step gives, and what rounding may do to it.
  Rounded Expected(const LinearStep& step, const Layer& layer, const at::Tensor& input,
                   const at::Tensor& residual) const {
    const Precision p = PrecisionOf(type());
    Rounded x = Exact(input);
    if (step.norm != nullptr) {
      const at::Tensor weight = layer.norm_weight.to(at::kDouble);
      x.value =
          at::layer_norm(x.value, {input.size(1)}, weight, layer.norm_bias.to(at::kDouble), 1e-6);
      // The mean, the variance and three operations of their own.
      x = Stored(Stored(x, 8 * p.sums), p.type);
    }
    // Weights are rounded to the type; parts leave less than fp32's last place of them.
    Rounded weight = Stored(Exact(layer.weight.t()), p.type);
    if (step.matrix->products() == Products::kBf16x3) x = Stored(x, 2 * p.sums);
    // Each of six products is rounded when it is added.
    const double terms = 6.0 * static_cast<double>(input.size(1));
    Rounded y = Sum(Product(x, weight, p.sums, at::full({}, terms, at::kDouble)), Exact(layer.bias),
                    p.sums);
    if (step.activation == Activation::kGelu) {
      y = Gelu(y, p.sums);
      // What is promised where results become bf16.
      if (type() == at::kBFloat16) y.squares = y.squares + std::pow(6e-5 / kLambda, 2);
    }
    if (step.activation == Activation::kRelu) y = Relu(y);
    if (step.activation == Activation::kStarRelu) {
      y = StarRelu(y, step.star_scale, step.star_bias, p.sums);
    }
    if (step.residual == Residual::kNone) return y;
    Rounded added = Exact(residual);
    if (step.residual_scale != nullptr) {
      added = Times(added, Exact(layer.scale.expand_as(residual)), p.sums);
    }
    return Sum(y, added, p.sums);
  }
};

// Rows and columns at, below and above the sizes of registers, tiles and blocks.
TEST_P(LinearChainTest, AStepIsItsDefinition) {
  for (const int64_t count : {1, 5, 16, 33, 200}) {
    for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{
             {32, 16}, {64, 100}, {192, 192}, {48, 7}, {75, 130}, {300, 48}}) {
      SCOPED_TRACE(std::to_string(count) + " rows, " + std::to_string(in) + " to " +
                   std::to_string(out));
      const Layer layer(in, out, GetParam());
      const at::Tensor input = Rows(count, in), residual = Rows(count, out);
      for (const LinearStep& step :
           {LinearStep{}, LinearStep{.norm = &layer.norm},
            LinearStep{.activation = Activation::kGelu},
            LinearStep{.activation = Activation::kRelu, .residual = Residual::kGiven},
            LinearStep{.norm = &layer.norm,
            .activation = Activation::kStarRelu,
            .star_scale = 0.8f,
            .star_bias = -0.3f,
            .residual = Residual::kGiven,
            .residual_scale = layer.scale.const_data_ptr<float>()}}) {
        LinearStep with_matrix = step;
        with_matrix.matrix = &layer.matrix;
        ExpectWithinRounding(RunChain({&with_matrix, 1}, input, residual),
                             Expected(with_matrix, layer, input, residual));
      }
    }
  }
}

TEST_P(LinearChainTest, AChainIsItsStepsOneAfterTheOther) {
  const Layer proj(192, 192, GetParam()), fc1(192, 768, GetParam()), fc2(768, 192, GetParam());
  ExpectAChainIsItsSteps(proj, fc1, fc2,
                         [&](int64_t count, int64_t channels) { return Rows(count, channels); });
}

// So wide that the hidden layer is computed some columns at a time: sums of fp32 in another order.
TEST_P(LinearChainTest, AWideHiddenLayerIsSummedToTheSame) {
  const Layer fc1(1024, 4096, GetParam()), fc2(4096, 1000, GetParam());
  const at::Tensor input = Rows(190, 1024), residual = Rows(190, 1000);
  std::vector<LinearStep> steps = {
      {.matrix = &fc1.matrix, .norm = &fc1.norm, .activation = Activation::kGelu},
      {.matrix = &fc2.matrix, .residual = Residual::kGiven}};
  const at::Tensor hidden = RunChain({&steps[0], 1}, input);
  ExpectWithinRounding(RunChain(steps, input, residual), Expected(steps[1], fc2, hidden, residual));
}

TEST_P(LinearChainTest, RowsDoNotDependOnThreadsOrOnEachOther) {
  const Layer fc1(96, 384, GetParam()), fc2(384, 96, GetParam());
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
  // A NaN stays in its row.
  input[5][7] = std::nan("");
  const at::Tensor broken = RunChain(steps, input);
  EXPECT_TRUE(broken[5].isnan().all().item<bool>());
  EXPECT_TRUE(at::equal(broken.narrow(0, 6, 294), alone.narrow(0, 6, 294)));
}

TEST_P(LinearChainTest, OnlyPartsMakeNaNOfAnInfinity) {
  const PackedMatrix matrix(at::rand({48, 64}) + 0.5, {}, GetParam().products, GetParam().tiled);
  const LinearStep step = {.matrix = &matrix};
  const bool parts = GetParam().products == Products::kBf16x3;
  const at::Tensor input = Rows(20, 64), alone = RunChain({&step, 1}, input);
  input[3][7] = std::numeric_limits<float>::infinity();
  const at::Tensor output = RunChain({&step, 1}, input);
  EXPECT_EQ(output[3].isnan().all().item<bool>(), parts) << output[3];
  EXPECT_EQ(output[3].isposinf().all().item<bool>(), !parts) << output[3];
  EXPECT_TRUE(at::equal(output.narrow(0, 0, 3), alone.narrow(0, 0, 3)));
  EXPECT_TRUE(at::equal(output.narrow(0, 4, 16), alone.narrow(0, 4, 16)));
}

// Multiplied by one, numbers stay what they are, but parts of those below 2^-110 would be
// subnormal.
TEST_P(LinearChainTest, OnlyPartsOfTinyNumbersAreLost) {
  const PackedMatrix matrix(at::eye(64), {}, GetParam().products, GetParam().tiled);
  const LinearStep step = {.matrix = &matrix};
  const at::Tensor input = (at::rand({20, 64}) + 1).to(type());
  const auto same = [&](double scale) {
    const at::Tensor scaled = input * scale, output = RunChain({&step, 1}, scaled);
    EXPECT_TRUE((output - scaled).abs().le(0x1p-125).all().item<bool>()) << scale;
    return at::equal(output, scaled);
  };
  EXPECT_TRUE(same(1));
  EXPECT_TRUE(same(0x1p-102));
  EXPECT_EQ(same(0x1p-115), GetParam().products != Products::kBf16x3);
}

// Few rows and weights of more than a MiB: threads then divide the columns.
TEST_P(LinearChainTest, DividedByColumnsItIsTheSame) {
  const Layer proj(512, 512, GetParam()), fc1(512, 1100, GetParam()), fc2(1100, 300, GetParam());
  const std::vector<LinearStep> steps = {
      {.matrix = &proj.matrix, .residual = Residual::kGiven},
      {.matrix = &fc1.matrix, .norm = &fc1.norm, .activation = Activation::kGelu},
      {.matrix = &fc2.matrix}};
  const Layer wide(512, 2048, GetParam()), narrow(2048, 512, GetParam());
  const std::vector<LinearStep> mlp = {
      {.matrix = &wide.matrix, .norm = &wide.norm, .activation = Activation::kGelu},
      {.matrix = &narrow.matrix, .residual = Residual::kInput}};
  // Deeper than what is multiplied at a time, to fewer columns than a block has.
  const Layer deep(1100, 10, GetParam()), deeper(1300, 40, GetParam());
  const Layer into(512, 1300, GetParam());
  const std::vector<LinearStep> to_few = {
      {.matrix = &into.matrix, .norm = &into.norm, .activation = Activation::kGelu},
      {.matrix = &deeper.matrix}};
  const std::vector<LinearStep> to_fewer = {{.matrix = &proj.matrix, .residual = Residual::kGiven},
                                            {.matrix = &fc1.matrix},
                                            {.matrix = &deep.matrix}};
  for (const int64_t count : {1, 16, 49, 130}) {
    const at::Tensor mixed = Rows(count, 512), tokens = Rows(count, 512);
    at::set_num_threads(1);
    const at::Tensor alone = RunChain(steps, mixed, tokens), mlp_alone = RunChain(mlp, mixed);
    const at::Tensor few = RunChain(to_few, mixed), fewer = RunChain(to_fewer, mixed, tokens);
    for (const int threads : {2, 5}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(at::equal(RunChain(steps, mixed, tokens), alone)) << count << " " << threads;
      EXPECT_TRUE(at::equal(RunChain(mlp, mixed), mlp_alone)) << count << " " << threads;
      EXPECT_TRUE(at::equal(RunChain(to_few, mixed), few)) << count << " " << threads;
      EXPECT_TRUE(at::equal(RunChain(to_fewer, mixed, tokens), fewer)) << count << " " << threads;
    }
    at::set_num_threads(1);
  }
}

TEST_P(LinearChainTest, GeluErrsByWhatIsPromised) {
  // Multiplied by one, numbers stay what they are.
  const int64_t width = 64;
  const PackedMatrix matrix(at::eye(width), {}, GetParam().products, GetParam().tiled);
  const LinearStep gelu = {.matrix = &matrix, .activation = Activation::kGelu};
  at::Tensor input = at::linspace(-10, 10, 2000 * width).reshape({-1, width}).to(type());
  input[0][0] = -1e4;
  input[0][1] = 1e4;
  const at::Tensor x = input.to(at::kDouble), y = RunChain({&gelu, 1}, input).to(at::kDouble);
  const at::Tensor size = x.abs();
  const double rounding = type() == at::kFloat ? 0x1p-23 : 0x1p-8;
  const at::Tensor allowed =
      type() == at::kFloat ? 2e-7 * size.clamp_min(1) : 6e-5 + rounding * size;
  const at::Tensor over = ~((y - at::gelu(x)).abs() <= allowed);
  EXPECT_FALSE(over.any().item<bool>()) << x.masked_select(over);
}

// Each but the first of three that have nothing between them could be the second of a pair.
TEST_P(LinearChainTest, ThreeWideLayersInARowAreTheirSteps) {
  const Layer a(256, 2048, GetParam()), b(2048, 2048, GetParam()), c(2048, 64, GetParam());
  const std::vector<LinearStep> steps = {
      {.matrix = &a.matrix}, {.matrix = &b.matrix}, {.matrix = &c.matrix}};
  const at::Tensor input = Rows(300, 256);
  const LinearStep first = steps[0], second = steps[1], third = steps[2];
  at::set_num_threads(1);
  const at::Tensor one_by_one =
      RunChain({&third, 1}, RunChain({&second, 1}, RunChain({&first, 1}, input)));
  const at::Tensor together = RunChain(steps, input);
  const double rounding = type() == at::kFloat ? 1e-5 : 3e-2;
  EXPECT_TRUE(at::allclose(together.to(at::kFloat), one_by_one.to(at::kFloat), rounding, rounding));
}

TEST_P(LinearChainTest, NoRowsGiveNone) {
  const Layer layer(64, 10, GetParam());
  const LinearStep step = {.matrix = &layer.matrix};
  const at::Tensor output = RunChain({&step, 1}, at::empty({2, 0, 64}, type()));
  EXPECT_EQ(output.sizes(), at::IntArrayRef({2, 0, 10}));
}

INSTANTIATE_TEST_SUITE_P(Ways, LinearChainTest, testing::ValuesIn(Ways()),
                         [](const testing::TestParamInfo<Way>& info) { return info.param.name; });

}  // namespace
}  // namespace fovea::kernels
