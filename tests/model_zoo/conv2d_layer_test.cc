// Which algorithm a prepared convolution runs, and what it holds.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/simd/isa.h"
#include "kernels/vision/winograd3x3/winograd3x3.h"
#include "model_zoo/heads/box_head.h"
#include "model_zoo/heads/mask_head.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"
#include "tests/model_zoo/called_operators.h"

namespace fovea::models {
namespace {

std::shared_ptr<Conv2d> Make(const Conv2dOptions& options) {
  auto conv = std::make_shared<Conv2d>(options);
  const at::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  for (at::Tensor& parameter : conv->parameters()) parameter.normal_(0, 0.1, generator);
  conv->eval();
  return conv;
}

at::Tensor Map(int64_t channels, int64_t side) {
  return at::randn({2, channels, side, side}, at::make_generator<at::CPUGeneratorImpl>(2))
      .contiguous(at::MemoryFormat::ChannelsLast);
}

class Conv2dLayerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernels::simd::BestIsa() == kernels::simd::Isa::kNone) GTEST_SKIP() << "no AVX2";
  }
};

TEST_F(Conv2dLayerTest, LargeMapsAreConvolvedByWinogradsAlgorithm) {
  const at::NoGradGuard no_grad;
  const auto conv = Make(Conv2dOptions::Square(64, 48, 3, 1, 1));
  conv->Fold(at::full({48}, 2.0F), at::full({48}, 0.5F));
  const at::Tensor weight = conv->parameters()[0].detach().clone();
  const at::Tensor bias = conv->parameters()[1].detach().clone();
  const auto direct = [&](const at::Tensor& map) { return at::conv2d(map, weight, bias, 1, 1); };
  const at::Tensor large = Map(64, 32), small = Map(64, 8);
  EXPECT_TRUE(at::equal(conv->forward(large), direct(large))) << "trainable";

  conv->Prepare({});
  const at::Tensor packed = kernels::PackWinograd3x3(weight);
  EXPECT_TRUE(at::equal(conv->forward(large), kernels::Winograd3x3(large, packed, bias, 48)));
  EXPECT_TRUE(at::allclose(conv->forward(large), direct(large), 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(conv->forward(small), direct(small), 1e-5, 1e-5));
  EXPECT_FALSE(kernels::Winograd3x3Takes(64, 48, 8, 8));
  // Both forms of the weight, and the bias.
  EXPECT_EQ(conv->WeightBytes(),
            static_cast<int64_t>(weight.nbytes() + packed.nbytes() + bias.nbytes()));
}

TEST_F(Conv2dLayerTest, APlanSharesBothFormsOfTheWeight) {
  const at::NoGradGuard no_grad;
  const Conv2dOptions options = Conv2dOptions::Square(32, 32, 3, 1, 1);
  const auto loaded = Make(options), plan = std::make_shared<Conv2d>(options);
  loaded->Prepare({});
  plan->ShareWeights(*loaded);
  for (const at::Tensor& map : {Map(32, 24), Map(32, 8)}) {
    EXPECT_TRUE(at::equal(plan->forward(map), loaded->forward(map)));
  }
  EXPECT_EQ(plan->WeightBytes(), 0);
}

TEST_F(Conv2dLayerTest, OtherConvolutionsHoldOneFormOfTheirWeight) {
  const at::NoGradGuard no_grad;
  for (const Conv2dOptions& options :
       {Conv2dOptions::Square(64, 64, 3, 2, 1), Conv2dOptions::Square(64, 64, 3, 1, 0),
        Conv2dOptions::Square(64, 64, 3, 1, 1).Groups(64), Conv2dOptions::Square(24, 64, 3, 1, 1),
        Conv2dOptions::Square(64, 8, 3, 1, 1),
        Conv2dOptions::Square(64, 64, 3, 1, 1).UpTo(14, 14)}) {
    const auto conv = Make(options);
    const int64_t bytes = conv->WeightBytes();
    const at::Tensor map = Map(options.in, 32);
    const at::Tensor expected = conv->forward(map);
    conv->Prepare({});
    EXPECT_EQ(conv->WeightBytes(), bytes);
    EXPECT_TRUE(at::allclose(conv->forward(map), expected, 1e-5, 1e-5));
  }
  const auto half = Make(Conv2dOptions::Square(64, 64, 3, 1, 1));
  const int64_t bytes = half->WeightBytes();
  half->Prepare({.dtype = at::kBFloat16});
  EXPECT_EQ(half->WeightBytes(), bytes / 2);
}

// Of maps of any layout, and of an empty batch, as torch's own convolution by the published weight.
TEST(PointwiseConv2dTest, IsALinearLayerOverTheMapsPlaces) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Conv2dOptions& options :
         {Conv2dOptions::Square(64, 40, 1), Conv2dOptions::Square(40, 96, 1, 2).NoBias(),
          Conv2dOptions{.in = 24, .out = 8, .stride = {2, 3}}, Conv2dOptions::Square(1, 1, 1)}) {
      const auto conv = Make(options);
      const at::Tensor weight = conv->parameters()[0].detach().to(type).clone();
      const std::optional<at::Tensor> bias =
          options.bias ? std::optional(conv->parameters()[1].detach().to(type).clone())
                       : std::nullopt;
      Linear linear(options.in, options.out, options.bias);
      linear.Prepare({.dtype = type});
      conv->Prepare({.dtype = type});
      EXPECT_TRUE(conv->parameters().empty());
      EXPECT_EQ(conv->WeightBytes(), linear.WeightBytes());
      const auto plan = std::make_shared<Conv2d>(options);
      plan->ShareWeights(*conv);
      EXPECT_EQ(plan->WeightBytes(), 0);
      auto generator = at::make_generator<at::CPUGeneratorImpl>(2);
      const at::Tensor map = at::randn({3, options.in, 19, 33}, generator).to(type);
      for (const at::Tensor& seen : {map, map.contiguous(at::MemoryFormat::ChannelsLast),
                                     map.flip(2), map.slice(3, 1, 33, 2), map.slice(0, 0, 0)}) {
        const at::Tensor out = conv->forward(seen);
        const at::Tensor expected = at::conv2d(seen, weight, bias, options.stride);
        ASSERT_EQ(out.sizes(), expected.sizes());
        EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
        // Sums that are added in another order, and in BF16 then one step apart: 2^-7.
        const double tolerance = type == at::kFloat ? 1e-5 : 1.0 / 128;
        EXPECT_TRUE(at::allclose(out, expected, tolerance, tolerance))
            << type << ", " << options.in << " to " << options.out << ", strides "
            << seen.strides();
        EXPECT_TRUE(at::equal(plan->forward(seen), out));
      }
    }
  }
}

// at::conv2d gives the same, and takes longer
// (docs/decisions/a-1x1-convolution-is-a-linear-layer.md).
TEST(PointwiseConv2dTest, CallsNoConvolution) {
  const at::NoGradGuard no_grad;
  const auto convolutions = [](const Conv2d& conv, c10::ScalarType type) {
    const at::Tensor map = Map(64, 9).to(type);
    const std::multiset<std::string> called = CalledOperators([&] { conv.forward(map); });
    EXPECT_FALSE(called.empty());
    return std::ranges::count_if(
        called, [](const std::string& name) { return name.find("conv") != std::string::npos; });
  };
  for (const c10::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto conv = Make(Conv2dOptions::Square(64, 96, 1, 2));
    EXPECT_GT(convolutions(*conv, at::kFloat), 0) << "trainable";
    conv->Prepare({.dtype = type});
    EXPECT_EQ(convolutions(*conv, type), 0) << type;
  }
}

TEST(PointwiseConv2dTest, OneWithPaddingOrGroupsIsAConvolution) {
  const at::NoGradGuard no_grad;
  for (const Conv2dOptions& options :
       {Conv2dOptions::Square(16, 24, 1, 1, 1), Conv2dOptions::Square(16, 24, 1).Groups(4)}) {
    const auto conv = Make(options);
    const at::Tensor weight = conv->parameters()[0].detach().clone();
    const at::Tensor bias = conv->parameters()[1].detach().clone();
    conv->Prepare({});
    const at::Tensor map = Map(16, 9);
    const at::Tensor expected = at::conv2d(map, weight, bias, options.stride, options.padding,
                                           /*dilation=*/1, options.groups);
    const at::Tensor out = conv->forward(map);
    ASSERT_EQ(out.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(out, expected, 1e-5, 1e-5));
  }
}

TEST(PointwiseConv2dTest, GivesUpThePublishedWeight) {
  const auto conv = Make(Conv2dOptions::Square(64, 64, 1));
  const c10::Storage published = conv->parameters()[0].storage();
  EXPECT_GT(published.use_count(), 1);
  conv->Prepare({.dtype = at::kBFloat16});
  EXPECT_EQ(published.use_count(), 1) << "the test's own";
}

// Model folders of 8 bits leave convolutions in the activations' type.
TEST_F(Conv2dLayerTest, APointwiseOneKeepsItsPrecisionInEightBits) {
  const at::NoGradGuard no_grad;
  const Conv2dOptions options = Conv2dOptions::Square(64, 96, 1);
  const auto conv = Make(options), other = Make(options);
  const c10::ScalarType type = Int8ActivationType();
  conv->Prepare({.dtype = type, .int8 = true});
  other->Prepare({.dtype = type});
  const at::Tensor map = Map(64, 9).to(type);
  EXPECT_TRUE(at::equal(conv->forward(map), other->forward(map)));
}

// ResNet-50's 3x3 convolutions of stride 1 have 64, 128, 256 and 512 channels, of maps of 56, 28,
// 14 and 7 places at 224 pixels; a transformed weight takes 64 bytes of each pair of channels.
TEST_F(Conv2dLayerTest, AModelHoldsTransformedWeightsWhereAMapOfItsSizesIsLarge) {
  ModelDescription description{.backbone = "resnet50", .random_weights_seed = 1};
  const auto transformed = [&] {
    const std::unique_ptr<Model> model = LoadModel(description);
    model->Prepare(c10::kCPU, Precision::kFp32);
    return model->weight_bytes() - 4 * model->info().parameters;
  };
  constexpr int64_t kFirstTwoStages = 64 * (3 * 64 * 64 + 3 * 128 * 128);
  constexpr int64_t kThirdStage = 64 * 5 * 256 * 256;
  const int64_t held = transformed();
  // Besides, norms are folded, and linear layers' weights lie in whole panels.
  EXPECT_NEAR(static_cast<double>(held), kFirstTwoStages, 500e3);
  description.further_sizes = {{288, 288}};
  EXPECT_EQ(transformed() - held, kThirdStage);
}

// The regions of two-stage detectors are always too small.
TEST_F(Conv2dLayerTest, TheHeadsOfRegionsHoldOneFormOfTheirWeights) {
  const at::NoGradGuard no_grad;
  const auto held = [](Layer& head) {
    int64_t bytes = 0;
    for (const at::Tensor& parameter : head.parameters()) bytes += parameter.nbytes();
    head.eval();
    head.Prepare({});
    return std::pair(head.WeightBytes(), bytes);
  };
  MaskHead masks(64, Conventions::kMmdetection);
  const auto [mask_bytes, mask_parameters] = held(masks);
  EXPECT_EQ(mask_bytes, mask_parameters);
  BoxHead boxes(64, Conventions::kTorchvision);
  const auto [box_bytes, box_parameters] = held(boxes);
  EXPECT_LT(box_bytes, box_parameters + 4 * 64 * 64 * 64) << "four transformed weights";
}

// What malloc gives is 0x7f in every byte meanwhile, a number whose square is infinite: memory that
// is read before it was written does not pass for zero.
class FilledMemory {
 public:
  FilledMemory() { ::mallopt(M_PERTURB, 0x80); }
  ~FilledMemory() { ::mallopt(M_PERTURB, 0); }
};

class Bfloat16Products {
 public:
  Bfloat16Products() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Bfloat16Products() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

// In bfloat16, as models are trained where the processor multiplies it; elsewhere torch may take
// another way, and this shows nothing.
TEST(Conv2dGradientTest, OfMapsSmallerThanTheStrideReadsNothingUnwritten) {
  const FilledMemory filled;
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1},
                                               {1, 4}, {1, 5}, {2, 7}, {3, 3}, {7, 3}};
  for (const auto& [height, width] : sizes) {
    for (const auto& options :
         {Conv2dOptions::Square(256, 256, 3, 2, 1), Conv2dOptions::Square(64, 64, 1, 2),
          Conv2dOptions::Square(64, 64, 3, 2, 1).Groups(64), Conv2dOptions::Square(64, 64, 3, 4, 1),
          Conv2dOptions::Square(64, 64, 7, 4, 3)}) {
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const auto conv = Make(options);
        const at::Tensor map =
            at::randn({4, options.in, height, width}, at::make_generator<at::CPUGeneratorImpl>(3))
                .contiguous(format);
        at::Tensor out;
        {
          const Bfloat16Products bf16;
          out = conv->forward(map);
        }
        out.to(at::kFloat).square().sum().backward();
        const at::Tensor gradient = conv->parameters()[0].grad();
        const at::Tensor twin = conv->parameters()[0].detach().clone().requires_grad_();
        const at::Tensor direct =
            at::conv2d(map, twin, conv->parameters()[1].detach(), options.stride, options.padding,
                       /*dilation=*/1, options.groups);
        direct.square().sum().backward();
        ASSERT_EQ(out.sizes(), direct.sizes());
        // Some products of factors that are rounded to 2^-9, in sums whose terms cancel.
        EXPECT_LT(((gradient - twin.grad()).abs().max() / twin.grad().abs().max()).item<double>(),
                  0.05)
            << height << "x" << width << ", kernel " << options.kernel[0] << ", stride "
            << options.stride[0] << ", groups " << options.groups << ", " << format;
      }
    }
  }
}

}  // namespace
}  // namespace fovea::models
