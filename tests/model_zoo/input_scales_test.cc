// Scales for the inputs of linear layers in 8 bits: found from what the layers saw, kept with the
// weights, and better than none where channels differ.
#include "model_zoo/quantization/input_scales.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/linear/linear_way.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/registry/heads.h"
#include "model_zoo/registry/load.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using testing::HasSubstr;

const ModelDescription kDemo = {.backbone = "vit_demo_patch8_64", .random_weights_seed = 3};

at::Tensor Pixels(int64_t images) {
  at::manual_seed(5);
  return at::randn({images, 3, 64, 64});
}

std::vector<CalibratedLayer> Calibrate(Backbone& backbone) {
  backbone.eval();
  return CalibrateInputScales(backbone, [&] {
    ForwardContext context;
    backbone.forward(Pixels(8), context);
  });
}

TEST(InputScalesTest, EveryLayerOfTheBlocksIsCalibratedAndNoOther) {
  const std::shared_ptr<Backbone> backbone = LoadBackbone(kDemo, Heads());
  const std::vector<CalibratedLayer> layers = Calibrate(*backbone);
  EXPECT_EQ(layers.size(), 6u * 4u);
  for (const CalibratedLayer& layer : layers) {
    EXPECT_THAT(layer.name, HasSubstr("blocks."));
    EXPECT_GT(layer.by_row, 0) << layer.name;
    // Eight bits of noise: a step is 1/127 of the largest value, which is a few deviations.
    EXPECT_LT(layer.by_row, 1e-2) << layer.name;
    if (layer.scales.defined()) {
      EXPECT_LE(layer.by_scales, 2 * layer.by_row);
      EXPECT_GT(layer.scales.min().item<float>(), 0);
    }
  }
}

TEST(InputScalesTest, ScalesGoToTheFileAndBack) {
  const std::shared_ptr<Backbone> backbone = LoadBackbone(kDemo, Heads());
  const std::vector<CalibratedLayer> layers = Calibrate(*backbone);
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "calibrated.safetensors";
  SaveWeights(file, *backbone, at::kFloat);
  const std::shared_ptr<Backbone> read =
      LoadBackbone({.backbone = kDemo.backbone, .weights = file}, Heads());
  const auto modules = read->named_modules();
  for (const CalibratedLayer& layer : layers) {
    const auto& linear = dynamic_cast<const Linear&>(*modules[layer.name]);
    ASSERT_EQ(linear.input_scales().defined(), layer.scales.defined());
    if (layer.scales.defined()) {
      EXPECT_TRUE(at::equal(linear.input_scales(), layer.scales));
    }
  }
  // What is not INT8 has no use for them.
  ForwardContext context;
  const auto logits = [&](const ModelDescription& description, Precision precision) {
    const std::unique_ptr<Model> model = LoadModel(description);
    model->Prepare(at::kCPU, precision);
    return model->Run(Pixels(4), context).at(0);
  };
  const ModelDescription calibrated = {.backbone = kDemo.backbone, .weights = file};
  EXPECT_TRUE(at::equal(logits(calibrated, Precision::kFp32), logits(kDemo, Precision::kFp32)));
  EXPECT_FALSE(at::equal(logits(calibrated, Precision::kInt8), logits(kDemo, Precision::kInt8)));
  std::filesystem::remove(file);
}

// A backbone of one layer, whose inputs it is given.
class OneLayer final : public Backbone {
 public:
  explicit OneLayer(const at::Tensor& weight)
      : layer_(Add<Linear>("layer", weight.size(1), weight.size(0), /*bias=*/false)) {
    const at::NoGradGuard no_grad;
    parameters().at(0).copy_(weight);
  }
  std::vector<at::Tensor> forward(const at::Tensor& rows, ForwardContext&) const override {
    return {layer_->forward(rows)};
  }
  const ModelInfo& info() const override { return info_; }

 private:
  const std::shared_ptr<Linear> layer_;
  const ModelInfo info_ = {.backbone = "one layer"};
};

// Errors of a layer's output with these scales of its inputs, as input_scales.h has them.
double ErrorWith(const at::Tensor& scales, const at::Tensor& rows, const at::Tensor& weight) {
  const auto in_steps = [](const at::Tensor& x, const at::Tensor& steps) {
    return (x / steps).round().clamp(-128, 127);
  };
  const at::Tensor scaled = weight * scales;
  const at::Tensor steps = scaled.abs().amax(1, /*keepdim=*/true) / 127;
  const at::Tensor exact = rows.matmul(weight.t());
  const at::Tensor found = in_steps(rows, scales).matmul((in_steps(scaled, steps) * steps).t());
  return ((found - exact).square().mean() / exact.square().mean()).item<double>();
}

// Some channels are 50 times as large as the others, other ones have large weights, and once a row
// was twice as large as any: alpha, the weights and the factor each have something to do.
TEST(InputScalesTest, ScalesAreBetterThanNoneWhereChannelsDiffer) {
  constexpr int64_t kRows = 64, kKept = 32, kIn = 64, kOut = 32, kPasses = 8;
  at::manual_seed(5);
  const at::Tensor weight = at::randn({kOut, kIn}) / 8;
  weight.slice(1, 0, std::nullopt, 16).div_(10);
  weight.slice(1, 1, std::nullopt, 4).mul_(8);
  const auto make = [&] { return std::make_shared<OneLayer>(weight); };
  const auto draw = [] {
    at::Tensor rows = at::randn({kRows, kIn});
    rows.slice(1, 0, std::nullopt, 16).mul_(50);
    return rows;
  };
  std::vector<at::Tensor> seen, kept;
  for (int pass = 0; pass < kPasses; ++pass) {
    seen.push_back(draw());
    kept.push_back(seen.back().slice(0, 0, std::nullopt, kRows / kKept).clone());
  }
  const at::Tensor rows = at::cat(kept), largest = at::cat(seen).abs().amax(0) * 2;
  seen[0][1] = largest;  // not among those that are kept
  const std::shared_ptr<OneLayer> calibrated = make();
  ForwardContext context;
  const std::vector<CalibratedLayer> layers = CalibrateInputScales(*calibrated, [&] {
    for (const at::Tensor& input : seen) calibrated->forward(input, context);
  });
  ASSERT_EQ(layers.size(), 1);
  const CalibratedLayer& layer = layers[0];
  ASSERT_TRUE(layer.scales.defined());
  EXPECT_NEAR(layer.by_scales, ErrorWith(layer.scales, rows, weight), 1e-3 * layer.by_scales);

  // The least error of equation 4's scales with these alphas, and with these factors.
  const at::Tensor of_weights = weight.abs().amax(0);
  const auto least = [&](std::vector<double> alphas, std::vector<double> factors, bool weights) {
    double error = std::numeric_limits<double>::infinity();
    for (const double alpha : alphas) {
      at::Tensor shape = largest.pow(alpha);
      if (weights && alpha > 0) shape = shape / of_weights.pow(1 - alpha);
      const at::Tensor whole = shape * ((largest / shape).max() / 127);
      for (const double factor : factors) {
        error = std::min(error, ErrorWith(whole * factor, rows, weight));
      }
    }
    return error;
  };
  const std::vector<double> alphas = {0.25, 0.5, 0.75};
  const std::vector<double> factors = {1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4};
  EXPECT_LT(layer.by_scales, 0.1 * layer.by_row);
  EXPECT_LT(layer.by_scales, 0.1 * least({0}, factors, true)) << "one scale for all channels";
  EXPECT_LT(layer.by_scales, 0.5 * least(alphas, {1}, true)) << "nothing is clipped";
  EXPECT_LT(layer.by_scales, 0.5 * least(alphas, factors, false)) << "whatever the weights are";

  // And so is what runs.
  if (kernels::FastestLinearWay(at::kChar, 1) == kernels::LinearWay::kAten) {
    GTEST_SKIP() << "this processor does not run linear layers in INT8";
  }
  const at::Tensor fresh = draw(), exact = fresh.matmul(weight.t());
  const auto error_of = [&](const std::shared_ptr<OneLayer>& backbone) {
    backbone->Prepare({.dtype = Int8ActivationType(), .int8 = true});
    const at::Tensor found = backbone->forward(fresh.to(Int8ActivationType()), context).at(0);
    return (found.to(at::kFloat) - exact).square().mean().item<double>();
  };
  EXPECT_LT(error_of(calibrated), 0.1 * error_of(make()));
}

TEST(InputScalesTest, WrongScalesAreRefusedInWords) {
  Linear layer(8, 4);
  EXPECT_THAT(ErrorOf([&] { layer.SetInputScales(at::ones({7})); }), HasSubstr("has 8 inputs"));
  for (const float wrong : {0.0f, -1.0f, 1e-35f, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor scales = at::ones({8});
    scales[3] = wrong;
    EXPECT_THAT(ErrorOf([&] { layer.SetInputScales(scales); }), HasSubstr("is not between"))
        << wrong;
  }
}

// Folding a norm into the layer changes what it is given.
TEST(InputScalesTest, FoldingForgetsThem) {
  Linear layer(8, 4);
  layer.SetInputScales(at::ones({8}));
  layer.FoldInput(at::full({8}, 2.0f), at::zeros({8}));
  EXPECT_FALSE(layer.input_scales().defined());
}

TEST(InputScalesTest, AModelWithoutLinearLayersIsRefused) {
  const std::shared_ptr<Backbone> backbone =
      LoadBackbone({.backbone = "resnet50", .random_weights_seed = 1}, Heads());
  EXPECT_THAT(ErrorOf([&] { CalibrateInputScales(*backbone, [] {}); }),
              HasSubstr("no linear layer that runs in INT8"));
}

}  // namespace
}  // namespace fovea::models
