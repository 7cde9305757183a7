// Compares the CPU implementations of the attention operators, rp_cpe and roi_align with their
// definitions on random legal shapes, strides and values (nms and key_only_layer have such tests of
// their own): FOVEA_FUZZ_CASES (2000) from FOVEA_FUZZ_SEED (1) on, the same on every machine, so
// that what fails was changed; `make test-full` draws the seed and takes more. A failure prints the
// seed of its case. Under AddressSanitizer it finds reads and writes out of bounds as well.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention/key_only_attention/op.h"
#include "kernels/vision/roi_align/op.h"
#include "kernels/vision/rp_cpe/op.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/key_only_truth.h"
#include "tests/kernels/map_cases.h"
#include "tests/kernels/roi_align_case.h"
#include "tests/kernels/rp_cpe_truth.h"
#include "tests/kernels/token_set_cases.h"

namespace fovea::kernels {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

// Draws what a case is made of. Tensors are drawn from ATen's generator, seeded alike.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) { at::manual_seed(seed); }

  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }
  template <class T>
  T Among(std::vector<T> choices) {
    return choices[Between(0, static_cast<int64_t>(choices.size()) - 1)];
  }

  int64_t Tokens() { return OneIn(6) ? Between(80, 300) : Between(1, 70); }
  int64_t HeadDim() { return OneIn(2) ? Among<int64_t>({16, 32, 64}) : Between(1, 70); }
  std::optional<double> Scale() {
    if (OneIn(2)) return std::nullopt;
    return Among<double>({1.0, 0.125, -0.3, 1.7, 1e-3, 0.0});
  }

  // Normal values in one of the memory layouts that callers have: contiguous, a view of a wider
  // tensor, dimensions in another order, rows further apart than they are long.
  at::Tensor Normal(const std::vector<int64_t>& sizes, at::ScalarType type) {
    const int64_t rank = static_cast<int64_t>(sizes.size());
    std::vector<int64_t> order(rank);
    for (int64_t i = 0; i < rank; ++i) order[i] = i;
    if (OneIn(2)) std::shuffle(order.begin(), order.end() - 1, random_);
    std::vector<int64_t> stored(rank), back(rank);
    for (int64_t i = 0; i < rank; ++i) {
      stored[i] = sizes[order[i]];
      back[order[i]] = i;
    }
    const int64_t extra = OneIn(3) ? Between(1, 9) : 0;
    stored.back() += extra;
    const int64_t skipped = extra > 0 ? Between(0, extra) : 0;
    return at::randn(stored).to(type).narrow(-1, skipped, sizes.back()).permute(back);
  }

  // A bias of a shape that broadcasts to `full`, sometimes with masked places; or undefined.
  at::Tensor Bias(std::vector<int64_t> full, at::ScalarType type) {
    if (OneIn(2)) return {};
    for (int64_t& size : full) {
      if (OneIn(3)) size = 1;
    }
    at::Tensor bias = Normal(full, OneIn(2) ? at::kFloat : type);
    if (OneIn(3)) bias = bias.masked_fill(at::rand(full).lt(0.3), -INFINITY);
    return bias;
  }
  // A bias of exactly this shape, or undefined.
  at::Tensor PositionBias(std::vector<int64_t> shape, at::ScalarType type) {
    if (OneIn(2)) return {};
    return Normal(shape, OneIn(2) ? at::kFloat : type);
  }

 private:
  std::mt19937_64 random_;
};

// A call with its arguments drawn, and what it should give.
struct Case {
  std::string what;  // the operator's name first
  at::ScalarType type;
  std::function<at::Tensor()> run;
  std::function<Rounded()> expected;
};

std::string Text(const at::Tensor& t) {
  if (!t.defined()) return "-";
  std::string text = c10::toString(t.scalar_type()) + std::string("[");
  for (int64_t i = 0; i < t.dim(); ++i) {
    text += std::to_string(t.size(i)) + ":" + std::to_string(t.stride(i)) +
            (i + 1 < t.dim() ? "," : "]");
  }
  return text;
}

Case Of(const AttentionCase& c) {
  std::string what = c.name;
  for (const at::Tensor& t : c.inputs) what += " " + Text(t);
  return {what, c.inputs[0].scalar_type(), [c] { return c.run(c.inputs); },
          [c] { return Expected(c); }};
}

Tensors DrawTokenSets(Dice& dice, at::ScalarType type, int64_t least_dim = 1) {
  const int64_t batch = dice.Between(1, 3), heads = dice.Between(1, 4),
                dim = std::max(dice.HeadDim(), least_dim), queries = dice.Tokens(),
                keys = dice.OneIn(2) ? queries : dice.Tokens();
  return {dice.Normal({batch, heads, queries, dim}, type),
          dice.Normal({batch, heads, keys, dim}, type),
          dice.Normal({batch, heads, keys, dim}, type)};
}
Tensors DrawMaps(Dice& dice, at::ScalarType type, int64_t heads, int64_t height, int64_t width) {
  const int64_t batch = dice.Between(1, 2), dim = dice.HeadDim();
  const auto map = [&] { return dice.Normal({batch, heads, height, width, dim}, type); };
  return {map(), map(), map()};
}

std::vector<int64_t> LogitsShape(const Tensors& qkv) {
  return {qkv[0].size(0), qkv[0].size(1), qkv[0].size(2), qkv[1].size(2)};
}

Case Dense(Dice& dice, at::ScalarType type) {
  const Tensors t = DrawTokenSets(dice, type);
  const Scale scale = dice.Scale();
  return Of(DenseCase(t, dice.Bias(LogitsShape(t), type), scale));
}

// As many keys as the case says, and as many as the operator is told: tests of the test differ.
Case Knn(Dice& dice, at::ScalarType type, bool exact, int64_t off_by = 0) {
  // Of few channels in bf16, too many keys are twins.
  Tensors t = DrawTokenSets(dice, type, /*least_dim=*/8);
  while (t[1].size(2) <= off_by) t = DrawTokenSets(dice, type, /*least_dim=*/8);
  // One key more among many is within bf16's rounding.
  const int64_t most = off_by > 0 ? std::clamp<int64_t>(t[1].size(2) / 2, 1, 12) : t[1].size(2);
  const int64_t topk = dice.Between(1, most);
  Scale scale = dice.Scale();
  if (scale == 0.0) scale = 1.0;  // every row would be ambiguous
  const at::Tensor bias = dice.Bias(LogitsShape(t), type);
  const auto make = exact ? KnnExactCase : KnnCase;
  const AttentionCase c = WithMargin(make(t, topk, bias, scale));
  Case drawn = Of(c);
  if (off_by > 0) {
    drawn.run = [=] { return make(t, topk + off_by, bias, scale).run(c.inputs); };
  }
  return drawn;
}

Case Window(Dice& dice, at::ScalarType type) {
  const int64_t h = dice.Between(1, 8), w = dice.Between(1, 8), rows = dice.Between(1, 3),
                columns = dice.Between(1, 3), heads = dice.Between(1, 4);
  const Tensors maps = DrawMaps(dice, type, heads, h * rows, w * columns);
  const Pair shift = {dice.OneIn(2) ? 0 : dice.Between(0, h - 1),
                      dice.OneIn(2) ? 0 : dice.Between(0, w - 1)};
  const Scale scale = dice.Scale();
  return Of(WindowCase(maps, {h, w}, shift, dice.PositionBias({heads, h * w, h * w}, type), scale));
}

Case CrissCross(Dice& dice, at::ScalarType type) {
  const Tensors maps =
      DrawMaps(dice, type, dice.Between(1, 4), dice.Between(1, 30), dice.Between(1, 20));
  return Of(CrissCrossCase(maps, dice.Scale()));
}

Case AxialWindow(Dice& dice, at::ScalarType type) {
  const int64_t heads = 4 * dice.Between(1, 2), height = dice.Between(1, 20),
                width = dice.Between(1, 20), w = dice.Between(1, 8),
                shift = dice.OneIn(2) ? 0 : dice.Between(0, w - 1);
  Tensors inputs = DrawMaps(dice, type, heads, height, width);
  const int64_t dim = inputs[0].size(4);
  const Scale scale = dice.Scale();
  inputs.push_back(dice.PositionBias({heads / 4, width, width}, type));
  inputs.push_back(dice.PositionBias({heads / 4, height, height}, type));
  inputs.push_back(dice.PositionBias({heads / 2, w * w, w * w}, type));
  for (int i = 0; i < 2; ++i) {
    inputs.push_back(dice.OneIn(2) ? at::Tensor() : dice.Normal({heads / 2, dim}, type));
  }
  return Of(AxialCase(inputs, w, shift, scale));
}

ActivationArguments DrawActivation(Dice& dice) {
  const std::string name = dice.Among<std::string>({"softmax", "gelu", "relu", "star_relu"});
  if (name != "star_relu") return {name};
  return {name, 0.8, -0.4};
}

Case StaticKey(Dice& dice, at::ScalarType type) {
  const Tensors t = DrawTokenSets(dice, type);
  const at::Tensor key = dice.Normal({t[2].size(1), t[2].size(2), t[2].size(3)}, type);
  const ActivationArguments activation = DrawActivation(dice);
  return Of(StaticKeyCase({t[0], key, t[2]}, activation, dice.Scale()));
}

Case ConvStaticKey(Dice& dice, at::ScalarType type) {
  const int64_t height = dice.Between(1, 9), width = dice.Between(1, 9), m = height * width,
                batch = dice.Between(1, 2), heads = dice.Between(1, 3), dim = dice.HeadDim(),
                prefix = dice.Between(0, 1);
  const auto given = [&](bool is, const std::vector<int64_t>& shape) {
    return is ? at::randn(shape).to(type) : at::Tensor();
  };
  const at::Tensor q = dice.Normal({batch, heads, m + prefix, dim}, type);
  const at::Tensor v = dice.Normal({batch, heads, m + prefix, dim}, type);
  const at::Tensor weight = (at::randn({heads * m, dim, 3, 3}) * 0.2).to(type);
  const at::Tensor bias = given(dice.OneIn(2), {heads * m});
  const ActivationArguments activation = DrawActivation(dice);
  return Of(ConvStaticKeyCase({q, v, weight, bias, given(prefix == 1, {heads, 1, dim})},
                              {height, width}, activation, dice.Scale()));
}

Case KeyOnly(Dice& dice, at::ScalarType type) {
  const int64_t batch = dice.Between(1, 3), heads = dice.Between(1, 4), dim = dice.HeadDim(),
                tokens = dice.OneIn(4) ? dice.Between(200, 900) : dice.Tokens();
  const at::Tensor key = dice.Normal({batch, heads, tokens, dim}, type);
  const at::Tensor value = dice.Normal({batch, heads, tokens, dim}, type);
  const KeyOnlyCase c{key, value, dice.Normal({heads, dim}, type), dice.Scale()};
  return {"key_only_attention " + Text(c.key) + Text(c.value) + Text(c.saliency), type,
          [c] { return KeyOnlyAttention(c.key, c.value, c.saliency, c.scale); },
          [c] { return ExpectedOf(c); }};
}

Case RpCpeMap(Dice& dice, at::ScalarType type) {
  const int64_t batch = dice.Between(1, 2), channels = dice.Between(1, 70),
                height = dice.Between(1, 20), width = dice.Between(1, 20),
                branches = dice.Between(1, 4);
  at::Tensor x = at::randn({batch, channels, height, width}).to(type);
  if (dice.OneIn(2)) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  if (dice.OneIn(4)) x = x.transpose(2, 3);
  const RpCpeCase c{x, at::randn({branches, channels, 3, 3}).to(type),
                    at::randn({branches, channels}).to(type)};
  return {"rp_cpe " + Text(x) + Text(c.weights), type,
          [c] { return RpCpe(c.x, c.weights, c.biases); }, [c] { return ExpectedOf(c); }};
}

Case RoiAlignMap(Dice& dice, at::ScalarType type) {
  const int64_t batch = dice.Between(1, 2), channels = dice.Between(1, 40),
                height = dice.Between(1, 24), width = dice.Between(1, 24), k = dice.Between(0, 8);
  at::Tensor input = at::randn({batch, channels, height, width}).to(type);
  if (dice.OneIn(2)) input = input.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor rois = at::rand({k, 5}) * 40 - 5;
  if (k > 0) rois.select(1, 0).copy_(at::randint(batch, {k}));
  const int64_t h = dice.Between(1, 7), w = dice.Between(1, 7), sampling = dice.Between(0, 3);
  const RoiAlignCase c{input, rois, 0.5, h, w, sampling, dice.OneIn(2)};
  return {"roi_align " + Text(input) + " rois " + std::to_string(k), type,
          [c] { return RoiAlign(c.input, c.rois, c.scale, c.h, c.w, c.sampling, c.aligned); },
          [c] { return ExpectedOf(c); }};
}

using Draw = std::function<Case(Dice&, at::ScalarType)>;

const std::vector<Draw>& Operators() {
  static const std::vector<Draw> operators = {
      Dense,
      [](Dice& dice, at::ScalarType type) { return Knn(dice, type, false); },
      [](Dice& dice, at::ScalarType type) { return Knn(dice, type, true); },
      Window,
      CrissCross,
      AxialWindow,
      StaticKey,
      ConvStaticKey,
      KeyOnly,
      RpCpeMap,
      RoiAlignMap};
  return operators;
}

// Empty where the output is within what rounding may do.
std::string Disagreement(const Case& c, const Variant& variant) {
  const Rounded expected = c.expected();
  const ScopedVariant scope(variant);
  const at::Tensor output = c.run();
  if (output.sizes() != expected.value.sizes()) return "another shape";
  if (output.numel() == 0) return "";
  const at::Tensor aside = expected.squares.eq(-kMasked);
  const double share = aside.to(at::kDouble).mean().item<double>();
  if (share > 0.01) return std::to_string(share) + " of the rows are ambiguous";
  const double worst = ShareOfBound(output, expected).masked_fill(aside, 0.0).max().item<double>();
  if (worst <= 1.0) return "";
  return "the error is " + std::to_string(worst) + " of its bound";
}

void RunCase(uint64_t seed, std::map<std::string, int>& counts) {
  Dice dice(seed);
  const at::ScalarType type = dice.OneIn(2) ? at::kFloat : at::kBFloat16;
  const Case c = dice.Among(Operators())(dice, type);
  std::vector<Variant> variants;
  for (const Variant& variant : AllVariants()) {
    if (variant.implementation == Implementation::kCpu && CannotRun(variant) == nullptr) {
      variants.push_back(variant);
    }
  }
  const Variant variant = dice.Among(variants);
  const std::string wrong = Disagreement(c, variant);
  EXPECT_EQ(wrong, "") << "FOVEA_FUZZ_SEED=" << seed << ": " << variant.name << " " << c.what;
  ++counts[c.what.substr(0, c.what.find_first_of(" ,"))];
}

TEST(DifferentialFuzzTest, ANumberOfNeighboursOffByOneIsSeen) {
  const Variant reference = AllVariants().front();
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Dice dice(seed);
    const at::ScalarType type = seed % 2 == 0 ? at::kFloat : at::kBFloat16;
    const Case c = Knn(dice, type, /*exact=*/seed % 3 == 0, /*off_by=*/1);
    EXPECT_TRUE(Disagreement(c, reference).starts_with("the error is")) << seed << ": " << c.what;
  }
}

TEST(DifferentialFuzzTest, EveryImplementationAgreesWithItsReference) {
  if (simd::BestIsa() == simd::Isa::kNone) GTEST_SKIP() << "there is no CPU implementation here";
  const int64_t cases = FromEnvironment("FOVEA_FUZZ_CASES", 2000);
  const uint64_t first = FromEnvironment("FOVEA_FUZZ_SEED", 1);
  std::map<std::string, int> counts;
  for (int64_t i = 0; i < cases && !HasFailure(); ++i) RunCase(first + i, counts);
  for (const auto& [name, count] : counts) std::printf("%-28s %6d cases\n", name.c_str(), count);
  // Each had its turn.
  EXPECT_TRUE(HasFailure() || cases < 1000 || counts.size() == Operators().size());
}

}  // namespace
}  // namespace fovea::kernels
