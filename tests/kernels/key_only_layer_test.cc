// The key-only layer: every path of every implementation against fp64; what it refuses.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/attention/key_only_layer/implementations.h"
#include "kernels/attention/key_only_layer/op.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {
namespace {

using testing::HasSubstr;

constexpr KeyOnlyPath kPaths[] = {KeyOnlyPath::kPlain, KeyOnlyPath::kHalfFolded,
                                  KeyOnlyPath::kFolded};

KeyOnlyWeights RandomWeights(int64_t heads, int64_t dim, at::ScalarType type, bool biases = true) {
  const int64_t channels = heads * dim;
  const auto weight = [&] {
    return (at::randn({channels, channels}) / std::sqrt(static_cast<double>(channels))).to(type);
  };
  const auto bias = [&]() -> std::optional<at::Tensor> {
    if (!biases) return std::nullopt;
    return at::randn({channels}).to(type);
  };
  return {weight(), bias(), weight(), bias(), at::randn({heads, dim}).to(type),
          weight(), bias(), weight(), bias()};
}

at::Tensor HeadsOf(const at::Tensor& t, const at::Tensor& saliency) {
  return t.view({t.size(0), t.size(1), saliency.size(0), saliency.size(1)});
}

// The definition, written apart from the reference: in `type`, by plain PyTorch.
at::Tensor FiveSteps(const at::Tensor& x, const KeyOnlyWeights& w, at::ScalarType type,
                     std::optional<double> scale = std::nullopt) {
  const auto linear = [&](const at::Tensor& in, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias) {
    const at::Tensor out = at::matmul(in, weight.to(type).t());
    return bias ? out + bias->to(type) : out;
  };
  const at::Tensor saliency = w.saliency.to(type);  // [H, D]
  const at::Tensor key = linear(x.to(type), w.key_weight, w.key_bias);
  const at::Tensor value = linear(x.to(type), w.value_weight, w.value_bias);
  const at::Tensor heads = HeadsOf(key, saliency);  // [B, N, H, D]
  const at::Tensor logits = (heads * saliency).sum(-1) *
                            scale.value_or(1.0 / std::sqrt(static_cast<double>(saliency.size(1))));
  const at::Tensor context = (at::softmax(logits, 1).unsqueeze(-1) * heads).sum(1, true);
  const at::Tensor gated = (context * HeadsOf(value, saliency)).flatten(2);
  return linear(linear(gated, w.u1_weight, w.u1_bias) + key, w.u2_weight, w.u2_bias);
}

class KeyOnlyLayerTest : public testing::TestWithParam<std::tuple<Variant, at::ScalarType>> {
 protected:
  void SetUp() override {
    at::manual_seed(41);
    at::set_num_threads(1);
    if (const char* why = CannotRun(variant())) GTEST_SKIP() << why;
  }

  const Variant& variant() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<1>(GetParam()); }

  // The operator with and without prepared weights, and each path by itself.
  std::vector<std::pair<std::string, at::Tensor>> RunAll(
      const at::Tensor& x, const KeyOnlyWeights& w,
      std::optional<double> scale = std::nullopt) const {
    const ScopedVariant scope(variant());
    std::vector<std::pair<std::string, at::Tensor>> outputs = {
        {"operator", KeyOnlyLayer(x, w, scale)},
        {"prepared operator", KeyOnlyLayer(x, w, scale, FoldKeyOnlyWeights(w))}};
    if (variant().implementation == Implementation::kReference) return outputs;
    const KeyOnlyLayerInputs in{
        x, w, scale.value_or(1.0 / std::sqrt(static_cast<double>(w.saliency.size(1)))),
        std::nullopt};
    for (const KeyOnlyPath path : kPaths) {
      outputs.emplace_back("path " + std::to_string(static_cast<int>(path)),
                           KeyOnlyLayerFast(in, path));
    }
    return outputs;
  }

  // Error at most twice plain PyTorch's and 1e-6 of the scale.
  void ExpectAsGoodAsPlain(const at::Tensor& x, const KeyOnlyWeights& w,
                           std::optional<double> scale = std::nullopt) const {
    const at::Tensor truth = FiveSteps(x, w, at::kDouble, scale);
    const auto error_of = [&](const at::Tensor& t) {
      return (t.to(at::kDouble) - truth).abs().max().item<double>();
    };
    const double plain = error_of(FiveSteps(x, w, type(), scale));
    for (const auto& [name, output] : RunAll(x, w, scale)) {
      ASSERT_EQ(output.scalar_type(), type());
      ASSERT_EQ(output.sizes(), x.sizes());
      EXPECT_TRUE(output.is_contiguous()) << name;
      EXPECT_LE(error_of(output), 2.0 * plain + 1e-6 * truth.abs().max().item<double>())
          << name << ", x of " << x.sizes() << ", plain PyTorch's " << plain;
    }
  }
};

TEST_P(KeyOnlyLayerTest, EveryPathIsAsGoodAsPlainPyTorch) {
  for (const int64_t tokens : {1, 2, 3, 7, 49, 97, 197, 257, 1025, 3136}) {
    ExpectAsGoodAsPlain(at::randn({2, tokens, 64}).to(type()), RandomWeights(2, 32, type()));
  }
}

TEST_P(KeyOnlyLayerTest, TheStagesOfLinGloAreAsGood) {
  for (const auto& [tokens, heads] : {std::pair<int64_t, int64_t>{784, 2}, {196, 5}, {49, 8}}) {
    ExpectAsGoodAsPlain(at::randn({1, tokens, 64 * heads}).to(type()),
                        RandomWeights(heads, 64, type()));
  }
}

TEST_P(KeyOnlyLayerTest, AnyWidthIsRight) {
  for (const auto& [heads, dim] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 1}, {1, 7}, {2, 17}, {3, 33}, {1, 128}}) {
    // How well a single weight rounds to bf16, and a product of such, is a matter of luck.
    if (type() != at::kFloat && heads * dim == 1) continue;
    ExpectAsGoodAsPlain(at::randn({2, 41, heads * dim}).to(type()),
                        RandomWeights(heads, dim, type()));
  }
}

TEST_P(KeyOnlyLayerTest, BiasesMayBeMissing) {
  const at::Tensor x = at::randn({2, 49, 32}).to(type());
  ExpectAsGoodAsPlain(x, RandomWeights(2, 16, type(), /*biases=*/false));
  for (int missing = 0; missing < 4; ++missing) {
    KeyOnlyWeights w = RandomWeights(2, 16, type());
    std::optional<at::Tensor>* const biases[] = {&w.key_bias, &w.value_bias, &w.u1_bias,
                                                 &w.u2_bias};
    biases[missing]->reset();
    ExpectAsGoodAsPlain(x, w);
  }
}

TEST_P(KeyOnlyLayerTest, AnyFiniteScaleIsRight) {
  for (const double scale : {-0.5, 0.0, 2.0}) {
    ExpectAsGoodAsPlain(at::randn({2, 300, 32}).to(type()), RandomWeights(2, 16, type()), scale);
  }
}

TEST_P(KeyOnlyLayerTest, StridedTokensAreTaken) {
  // The tokens of a larger tensor, every second of them, past a class token.
  const at::Tensor x = at::randn({2, 101, 40}).to(type()).slice(1, 1, 101, 2).narrow(2, 4, 32);
  ExpectAsGoodAsPlain(x, RandomWeights(2, 16, type()));
}

TEST_P(KeyOnlyLayerTest, ANaNSpoilsItsImageOnly) {
  const KeyOnlyWeights w = RandomWeights(2, 16, type());
  const at::Tensor x = at::randn({3, 49, 32}).to(type());
  x[1][30][5] = std::nan("");
  for (const auto& [name, output] : RunAll(x, w)) {
    EXPECT_TRUE(output[1].isnan().all().item<bool>()) << name;
    EXPECT_EQ(output.isnan().sum().item<int64_t>(), 49 * 32) << name;
  }
}

TEST_P(KeyOnlyLayerTest, AnEmptyBatchIsAnEmptyAnswer) {
  const ScopedVariant scope(variant());
  const at::Tensor x = at::randn({0, 49, 32}).to(type());
  EXPECT_EQ(KeyOnlyLayer(x, RandomWeights(2, 16, type())).sizes(), x.sizes());
}

std::string NameOf(const testing::TestParamInfo<KeyOnlyLayerTest::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Implementations, KeyOnlyLayerTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kBFloat16)),
                         NameOf);

TEST(KeyOnlyPathTest, LongSequencesAreFoldedAndShortOnesHalf) {
  for (const bool half_width : {false, true}) {
    for (const int64_t batch : {1, 16}) {
      const auto choose = [&](int64_t tokens, int64_t channels, int64_t heads) {
        return CheapestKeyOnlyPath({batch, tokens, channels, heads, half_width, /*prepared=*/true});
      };
      EXPECT_EQ(choose(3136, 64, 1), KeyOnlyPath::kFolded);
      EXPECT_EQ(choose(784, 128, 2), KeyOnlyPath::kFolded);
      EXPECT_EQ(choose(784, 320, 5), KeyOnlyPath::kFolded);
      EXPECT_EQ(choose(65536, 64, 1), KeyOnlyPath::kFolded);
      EXPECT_EQ(choose(49, 512, 8), KeyOnlyPath::kHalfFolded);
    }
  }
}

TEST(KeyOnlyPathTest, FoldingForOneCallHasToPay) {
  const auto choose = [](int64_t batch, int64_t tokens, int64_t channels, int64_t heads) {
    return CheapestKeyOnlyPath(
        {batch, tokens, channels, heads, /*half_width=*/false, /*prepared=*/false});
  };
  EXPECT_EQ(choose(1, 49, 512, 8), KeyOnlyPath::kPlain);
  EXPECT_EQ(choose(1, 1, 64, 1), KeyOnlyPath::kPlain);
  EXPECT_EQ(choose(16, 49, 512, 8), KeyOnlyPath::kPlain);
  EXPECT_EQ(choose(1, 3136, 64, 1), KeyOnlyPath::kFolded);
  EXPECT_EQ(choose(16, 784, 128, 2), KeyOnlyPath::kFolded);
}

TEST(KeyOnlyPathTest, CostsAreWhatTheOperationsAre) {
  const KeyOnlyLayerShape shape{2, 1000, 100, 1, /*half_width=*/false, /*prepared=*/true};
  const auto cost = [](KeyOnlyPath path, const KeyOnlyLayerShape& s) {
    return ExpectedNanoseconds(path, s);
  };
  // Beside passes over tokens: 8, 6 and 2 * B * N * C^2 operations, and 2 * B * C^3.
  EXPECT_NEAR(cost(KeyOnlyPath::kPlain, shape), 16e7 / 200 + 3 * 12e3, 1.0);
  EXPECT_NEAR(cost(KeyOnlyPath::kHalfFolded, shape), 12e7 / 200 + 2 * 12e3, 1.0);
  EXPECT_NEAR(cost(KeyOnlyPath::kFolded, shape), 4e7 / 200 + 12e3 + 4e6 / 200 + 1e4, 1.0);
  KeyOnlyLayerShape unprepared = shape;
  unprepared.prepared = false;
  EXPECT_EQ(cost(KeyOnlyPath::kPlain, unprepared), cost(KeyOnlyPath::kPlain, shape));
  EXPECT_GT(cost(KeyOnlyPath::kFolded, unprepared), cost(KeyOnlyPath::kFolded, shape));
}

struct Arguments {
  at::Tensor x = at::randn({2, 5, 12});
  KeyOnlyWeights weights = RandomWeights(3, 4, at::kFloat);
  std::optional<double> scale = std::nullopt;
  std::optional<std::vector<at::Tensor>> folded = std::nullopt;
};

std::string ErrorOf(const Arguments& a) {
  try {
    KeyOnlyLayer(a.x, a.weights, a.scale, a.folded);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(KeyOnlyLayerContractTest, TokensAreChecked) {
  Arguments a;
  EXPECT_EQ(ErrorOf(a), "no error");
  a.x = at::randn({5, 12});
  EXPECT_EQ(
      ErrorOf(a),
      "key_only_layer: x must have 3 dimensions [batch, tokens, channels], got shape [5, 12]");
  a.x = at::randn({2, 0, 12});
  EXPECT_EQ(ErrorOf(a), "key_only_layer: x must have at least one token, got shape [2, 0, 12]");
  a.x = at::randn({2, 5, 0});
  EXPECT_THAT(ErrorOf(a), HasSubstr("x must have at least one channel"));
  a.x = at::randn({2, 12, 5}).transpose(1, 2);
  EXPECT_THAT(ErrorOf(a), HasSubstr("x must be contiguous in its last dimension"));
  a.x = at::zeros({2, 5, 12}, at::kInt);
  EXPECT_THAT(ErrorOf(a), HasSubstr("x must be Float, BFloat16, Half or Double, got Int"));
}

TEST(KeyOnlyLayerContractTest, WeightsAreChecked) {
  Arguments a;
  a.weights.u1_weight = at::randn({12, 11});
  EXPECT_EQ(ErrorOf(a),
            "key_only_layer: u1_weight must have shape [channels, channels] = [12, 12], got shape "
            "[12, 11]");
  a = {};
  a.weights.value_bias = at::randn({1, 12});
  EXPECT_EQ(ErrorOf(a),
            "key_only_layer: value_bias must have shape [channels] = [12], got shape [1, 12]");
  a = {};
  a.weights.u2_bias = a.weights.u2_bias->to(at::kBFloat16);
  EXPECT_EQ(ErrorOf(a), "key_only_layer: u2_bias must have x's type Float, got BFloat16");
  a = {};
  a.weights.key_weight = at::empty({12, 12}, at::kMeta);
  EXPECT_EQ(ErrorOf(a), "key_only_layer: key_weight must be on x's device cpu, got meta");
  a = {};
  a.weights.saliency = at::randn({3, 5});
  EXPECT_EQ(ErrorOf(a),
            "key_only_layer: saliency must have heads * head_dim = channels = 12, got shape "
            "[3, 5]");
  a.weights.saliency = at::randn({12});
  EXPECT_THAT(ErrorOf(a), HasSubstr("saliency must have 2 dimensions [heads, head_dim]"));
  a = {};
  a.scale = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ErrorOf(a), "key_only_layer: scale must be finite, got inf");
}

TEST(KeyOnlyLayerContractTest, FoldedWeightsAreChecked) {
  Arguments a;
  a.folded = FoldKeyOnlyWeights(a.weights);
  EXPECT_EQ(ErrorOf(a), "no error");
  a.folded->pop_back();
  EXPECT_THAT(ErrorOf(a), HasSubstr("folded's length must be in [6, 6]"));
  a.folded = FoldKeyOnlyWeights(RandomWeights(2, 6, at::kFloat));
  EXPECT_THAT(ErrorOf(a), HasSubstr("folded[0] must have shape of fold_key_only_weights"));
  a.folded = FoldKeyOnlyWeights(RandomWeights(3, 4, at::kBFloat16));
  EXPECT_EQ(ErrorOf(a), "key_only_layer: folded[3] must have x's type Float, got BFloat16");
  KeyOnlyWeights w = RandomWeights(3, 4, at::kFloat);
  w.u2_weight = at::randn({12});
  try {
    FoldKeyOnlyWeights(w);
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("fold_key_only_weights: u2_weight must have shape"));
  }
}

}  // namespace
}  // namespace fovea::kernels
