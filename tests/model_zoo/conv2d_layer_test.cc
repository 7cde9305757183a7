// Which algorithm a prepared convolution runs, and what it holds.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/onednn/private_operators.h"
#include "kernels/simd/isa.h"
#include "kernels/vision/winograd3x3/winograd3x3.h"
#include "model_zoo/heads/box_head.h"
#include "model_zoo/heads/mask_head.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"

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
  const at::Tensor map = Map(32, 24);
  EXPECT_TRUE(at::equal(plan->forward(map), loaded->forward(map)));
  EXPECT_EQ(plan->WeightBytes(), 0);
}

// With the last of oneDNN's blocks of outputs filled up: at most 64, by layer and processor.
int64_t BytesInWholeBlocks(const Conv2d& conv) {
  int64_t bytes = 0;
  for (const at::Tensor& parameter : conv.parameters()) {
    const int64_t out = parameter.size(0);
    bytes += static_cast<int64_t>(parameter.nbytes()) / out * (out + 63);
  }
  return bytes;
}

TEST_F(Conv2dLayerTest, OtherConvolutionsHoldOneFormOfTheirWeight) {
  const at::NoGradGuard no_grad;
  for (const Conv2dOptions& options :
       {Conv2dOptions::Square(64, 64, 3, 2, 1), Conv2dOptions::Square(64, 64, 3, 1, 0),
        Conv2dOptions::Square(64, 64, 1), Conv2dOptions::Square(64, 64, 3, 1, 1).Groups(64),
        Conv2dOptions::Square(24, 64, 3, 1, 1), Conv2dOptions::Square(64, 8, 3, 1, 1),
        Conv2dOptions::Square(64, 64, 3, 1, 1).UpTo(14, 14)}) {
    const auto conv = Make(options);
    const int64_t bytes = conv->WeightBytes(), most = BytesInWholeBlocks(*conv);
    const at::Tensor map = Map(options.in, 32);
    const at::Tensor expected = conv->forward(map);
    conv->Prepare({});
    EXPECT_GE(conv->WeightBytes(), bytes);
    EXPECT_LE(conv->WeightBytes(), most);
    EXPECT_TRUE(at::allclose(conv->forward(map), expected, 1e-5, 1e-5));
  }
  const auto half = Make(Conv2dOptions::Square(64, 64, 3, 1, 1));
  const int64_t bytes = half->WeightBytes();
  half->Prepare({.dtype = at::kBFloat16});
  EXPECT_EQ(half->WeightBytes(), bytes / 2);
}

// Of maps of any size and layout, without a batch too, as torch's own convolution of the published
// weight.
TEST(PackedConv2dTest, GivesTheNumbersOfThePublishedWeight) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    if (!kernels::onednn::Supports(type)) continue;
    for (const Conv2dOptions& options :
         {Conv2dOptions::Square(3, 64, 7, 4, 2), Conv2dOptions::Square(64, 40, 3, 2, 1).NoBias(),
          Conv2dOptions::Square(48, 48, 7, 1, 3).Groups(48), Conv2dOptions::Square(64, 8, 1),
          Conv2dOptions::Square(16, 24, 3, 1, 1).Groups(2), Conv2dOptions::Square(1, 1, 1, 2)}) {
      const auto conv = Make(options);
      const std::vector<at::Tensor> published = conv->parameters();
      const at::Tensor weight =
          published[0].detach().to(type).contiguous(at::MemoryFormat::ChannelsLast).clone();
      const std::optional<at::Tensor> bias =
          options.bias ? std::optional(published[1].detach().to(type).clone()) : std::nullopt;
      conv->Prepare({.dtype = type});
      EXPECT_TRUE(conv->parameters().empty()) << "the published weight is held";
      const at::Tensor odd = at::randn({3, options.in, 19, 33}).to(type);
      const at::Tensor square = at::randn({2, options.in, 28, 28}).to(type);
      for (const at::Tensor& map :
           {square, square.contiguous(at::MemoryFormat::ChannelsLast), odd, odd.flip(2),
            odd.slice(3, 1, 33, 2), odd.slice(0, 1, 2), square.slice(0, 0, 0)}) {
        const at::Tensor out = conv->forward(map);
        const at::Tensor expected = at::conv2d(map, weight, bias, options.stride, options.padding,
                                               /*dilation=*/1, options.groups);
        ASSERT_EQ(out.sizes(), expected.sizes());
        EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
        // Rounded once to the type, of sums that are added in another order.
        const double tolerance = type == at::kFloat ? 1e-5 : 1.0 / 128;
        EXPECT_TRUE(at::allclose(out, expected, tolerance, tolerance))
            << type << ", " << options.in << " to " << options.out << ", map " << map.sizes();
      }
    }
  }
}

TEST(PackedConv2dTest, WithoutOneDnnAtenConvolves) {
  const at::NoGradGuard no_grad;
  const auto conv = Make(Conv2dOptions::Square(24, 40, 3, 2, 1));
  const at::Tensor map = Map(24, 19), expected = conv->forward(map);
  const bool enabled = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(false);
  conv->Prepare({});
  const at::Tensor out = conv->forward(map);
  at::globalContext().setUserEnabledMkldnn(enabled);
  EXPECT_FALSE(conv->parameters().empty());
  EXPECT_TRUE(at::allclose(out, expected, 1e-5, 1e-5));
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
  // Besides, norms are folded, and packed weights lie in whole blocks: 1.5% of all.
  EXPECT_NEAR(static_cast<double>(held), kFirstTwoStages, 1.5e6);
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
