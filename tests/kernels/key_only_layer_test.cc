// The key-only layer: every path of every implementation against fp64; what it refuses.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/key_only_layer/implementations.h"
#include "kernels/attention/key_only_layer/op.h"
#include "kernels/attention/key_only_layer/path.h"
#include "kernels/choice/choice.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/scoped_choose.h"

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

// The definition, written apart from the reference: step by step, and folded as folded_weights.h
// says. In fp64 both are the same; each path's roundings are some of theirs, what lies between two
// products being stored in the tensors' type.
Rounded ExpectedOf(const at::Tensor& x, const KeyOnlyWeights& w, std::optional<double> scale) {
  const Precision p = PrecisionOf(x.scalar_type());
  const Rounded in = Exact(x), saliency = Exact(w.saliency);  // [B, N, C], [H, D]
  const auto stored = [&](const Rounded& t) { return Stored(t, p.type); };
  const auto transposed = [](const at::Tensor& weight) { return Exact(weight.t()); };
  const auto add = [&](const Rounded& t, const std::optional<at::Tensor>& bias) {
    return bias ? Sum(t, Exact(*bias), p.sums) : t;
  };
  const auto linear = [&](const Rounded& t, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias) {
    return stored(add(Product(t, transposed(weight), p.sums), bias));
  };

  const Rounded key = linear(in, w.key_weight, w.key_bias);
  const Rounded heads = key.Map([&](const at::Tensor& t) {
    return HeadsOf(t, w.saliency).transpose(1, 2);  // [B, H, N, D]
  });
  const Rounded column = saliency.Map([](const at::Tensor& t) { return t.unsqueeze(-1); });
  const double by = scale.value_or(1.0 / std::sqrt(static_cast<double>(w.saliency.size(1))));
  const Rounded logits =
      Scaled(Product(heads, column, p.sums), by, p.sums).Map([](const at::Tensor& t) {
        return t.transpose(-2, -1);
      });
  const Rounded context =  // [B, 1, C]
      SoftmaxAverage(logits, heads, {p.sums, p.sums, p.least}).Map([](const at::Tensor& t) {
        return t.flatten(1).unsqueeze(1);
      });

  const Rounded gated = stored(Times(linear(in, w.value_weight, w.value_bias), context, p.sums));
  const Rounded local = stored(Sum(linear(gated, w.u1_weight, w.u1_bias), key, p.sums));
  const Rounded steps = linear(local, w.u2_weight, w.u2_bias);

  const Rounded product = stored(Product(transposed(w.u1_weight), transposed(w.u2_weight), p.sums));
  const auto with_bias = [](const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    return at::cat({weight.t().to(at::kDouble),
                    (bias ? *bias : at::zeros({weight.size(0)})).to(at::kDouble).unsqueeze(0)});
  };
  at::Tensor through = with_bias(w.key_weight, w.key_bias);
  if (w.u1_bias) through[-1].add_(*w.u1_bias);
  const Rounded direct = stored(Product(Exact(through), transposed(w.u2_weight), p.sums));
  const Rounded weight = stored(Times(Exact(with_bias(w.value_weight, w.value_bias)), context,
                                      p.sums));  // [B, C + 1, C]
  const Rounded effective = stored(stored(Sum(Product(weight, product, p.sums), direct, p.sums)));
  const Rounded rows = Exact(at::constant_pad_nd(x.to(at::kDouble), {0, 1}, 1.0));
  const Rounded folded = stored(stored(add(Product(rows, effective, p.sums), w.u2_bias)));
  EXPECT_TRUE(at::allclose(folded.value, steps.value, 1e-9, 1e-9));
  return {steps.value, at::maximum(steps.squares, folded.squares)};
}

// Every implementation: the operator with and without prepared weights, and each path by itself.
void ExpectRight(const at::Tensor& x, const KeyOnlyWeights& w,
                 std::optional<double> scale = std::nullopt) {
  SCOPED_TRACE(testing::Message() << "x of " << x.sizes());
  const Rounded expected = ExpectedOf(x, w, scale);
  const std::vector<at::Tensor> prepared = FoldKeyOnlyWeights(w);
  const at::ScalarType type = x.scalar_type();
  ExpectEveryVariant(type, expected, [&] { return KeyOnlyLayer(x, w, scale); });
  ExpectEveryVariant(type, expected, [&] { return KeyOnlyLayer(x, w, scale, prepared); });
  for (const KeyOnlyPath path : kPaths) {
    SCOPED_TRACE("path " + std::to_string(static_cast<int>(path)));
    const double by = scale.value_or(1.0 / std::sqrt(static_cast<double>(w.saliency.size(1))));
    ExpectEveryVariant(type, expected, [&] {
      return KeyOnlyLayerFast({x, w, by, std::nullopt}, path);
    });
  }
}

class KeyOnlyLayerNumbersTest : public NumbersTest {};

TEST_P(KeyOnlyLayerNumbersTest, EveryPathIsRight) {
  for (const int64_t tokens : {1, 2, 3, 7, 49, 97, 197, 257, 1025, 3136}) {
    ExpectRight(at::randn({2, tokens, 64}).to(type()), RandomWeights(2, 32, type()));
  }
}

TEST_P(KeyOnlyLayerNumbersTest, TheStagesOfLinGloAreRight) {
  for (const auto& [tokens, heads] : {std::pair<int64_t, int64_t>{784, 2}, {196, 5}, {49, 8}}) {
    ExpectRight(at::randn({1, tokens, 64 * heads}).to(type()), RandomWeights(heads, 64, type()));
  }
}

TEST_P(KeyOnlyLayerNumbersTest, AnyWidthIsRight) {
  for (const auto& [heads, dim] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 1}, {1, 7}, {2, 17}, {3, 33}, {1, 128}}) {
    ExpectRight(at::randn({2, 41, heads * dim}).to(type()), RandomWeights(heads, dim, type()));
  }
}

TEST_P(KeyOnlyLayerNumbersTest, BiasesMayBeMissing) {
  const at::Tensor x = at::randn({2, 49, 32}).to(type());
  ExpectRight(x, RandomWeights(2, 16, type(), /*biases=*/false));
  for (int missing = 0; missing < 4; ++missing) {
    KeyOnlyWeights w = RandomWeights(2, 16, type());
    std::optional<at::Tensor>* const biases[] = {&w.key_bias, &w.value_bias, &w.u1_bias,
                                                 &w.u2_bias};
    biases[missing]->reset();
    ExpectRight(x, w);
  }
}

TEST_P(KeyOnlyLayerNumbersTest, AnyFiniteScaleIsRight) {
  for (const double scale : {-0.5, 0.0, 2.0}) {
    ExpectRight(at::randn({2, 300, 32}).to(type()), RandomWeights(2, 16, type()), scale);
  }
}

TEST_P(KeyOnlyLayerNumbersTest, StridedTokensAreTaken) {
  // The tokens of a larger tensor, every second of them, past a class token.
  const at::Tensor x = at::randn({2, 101, 40}).to(type()).slice(1, 1, 101, 2).narrow(2, 4, 32);
  ExpectRight(x, RandomWeights(2, 16, type()));
}

INSTANTIATE_TEST_SUITE_P(Types, KeyOnlyLayerNumbersTest, VectorisedTypes(), TypeOf);

class KeyOnlyLayerTest : public VariantTest {};

TEST_P(KeyOnlyLayerTest, ANaNSpoilsItsImageOnly) {
  const KeyOnlyWeights w = RandomWeights(2, 16, type());
  const at::Tensor x = at::randn({3, 49, 32}).to(type());
  x[1][30][5] = std::nan("");
  const ScopedVariant scope(variant());
  std::vector<at::Tensor> outputs = {KeyOnlyLayer(x, w)};
  for (const KeyOnlyPath path : kPaths) {
    if (!is_reference()) outputs.push_back(KeyOnlyLayerFast({x, w, 0.25, std::nullopt}, path));
  }
  for (const at::Tensor& output : outputs) {
    EXPECT_TRUE(output[1].isnan().all().item<bool>());
    EXPECT_EQ(output.isnan().sum().item<int64_t>(), 49 * 32);
  }
}

TEST_P(KeyOnlyLayerTest, AnEmptyBatchIsAnEmptyAnswer) {
  const ScopedVariant scope(variant());
  const at::Tensor x = at::randn({0, 49, 32}).to(type());
  EXPECT_EQ(KeyOnlyLayer(x, RandomWeights(2, 16, type())).sizes(), x.sizes());
}

INSTANTIATE_TEST_SUITE_P(Implementations, KeyOnlyLayerTest,
                         testing::ValuesIn(EveryVariantAndType()), NameOf);

KeyOnlyLayerShape ShapeOf(int64_t tokens, int64_t channels, bool prepared = true) {
  return {tokens, channels, /*heads=*/2, at::kFloat, c10::kCPU, prepared};
}

TEST(KeyOnlyPathTest, ShapesThatAreAlikeAreOneQuestion) {
  EXPECT_EQ(KeyOnlyQuestion(ShapeOf(784, 128)), "key_only_layer_fp32_n1024_c128");
  EXPECT_EQ(KeyOnlyQuestion(ShapeOf(1000, 100)), "key_only_layer_fp32_n1024_c128");
  EXPECT_EQ(KeyOnlyQuestion(ShapeOf(768, 320)), "key_only_layer_fp32_n768_c384");
  EXPECT_EQ(KeyOnlyQuestion(ShapeOf(3, 1)), "key_only_layer_fp32_n3_c1");
  EXPECT_EQ(KeyOnlyQuestion(ShapeOf(65536, 64)), KeyOnlyQuestion(ShapeOf(4096, 64)));
  EXPECT_EQ(KeyOnlyQuestion(ShapeOf(49, 512, /*prepared=*/false)),
            "key_only_layer_fp32_n64_c512_unprepared");
  KeyOnlyLayerShape bf16 = ShapeOf(49, 512);
  bf16.type = at::kBFloat16;
  EXPECT_EQ(KeyOnlyQuestion(bf16), "key_only_layer_bf16_n64_c512");
}

TEST(KeyOnlyPathTest, APathCanBeForced) {
  const KeyOnlyLayerShape shape = ShapeOf(53, 32);
  const KeyOnlyWeights w = RandomWeights(2, 16, at::kFloat);
  const KeyOnlyLayerInputs in{at::randn({2, 53, 32}), w, 0.25, Fold(w)};
  for (const KeyOnlyPath path : kPaths) {
    const ScopedChoose choose(KeyOnlyQuestion(shape) + "=" + std::string(NameOfPath(path)));
    EXPECT_EQ(FastestKeyOnlyPath(shape), path);
    EXPECT_TRUE(at::equal(KeyOnlyLayerFast(in), KeyOnlyLayerFast(in, path)));
  }
  const ScopedChoose choose(KeyOnlyQuestion(shape) + "=fastest");
  EXPECT_THROW(FastestKeyOnlyPath(shape), c10::Error);
}

TEST(KeyOnlyPathTest, AnAnswerIsKept) {
  const KeyOnlyLayerShape shape = ShapeOf(31, 24, /*prepared=*/false);
  const KeyOnlyPath path = FastestKeyOnlyPath(shape);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(FastestKeyOnlyPath(shape), path);
  const std::vector<ChoiceAnswer> answers = Answers();
  const auto answer = std::ranges::find(answers, KeyOnlyQuestion(shape), &ChoiceAnswer::question);
  ASSERT_NE(answer, answers.end());
  EXPECT_EQ(answer->answer, NameOfPath(path));
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
