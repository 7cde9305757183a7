// Compares the CPU implementations of the attention operators, rp_cpe and roi_align with their
// references on random legal shapes, strides and values (nms and key_only_layer have such tests of
// their own), for FOVEA_FUZZ_SECONDS (60). A failure prints the seed of its case: FOVEA_FUZZ_SEED
// runs that one first. Under AddressSanitizer it finds reads and writes out of bounds as well.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention/axial_window_attention/op.h"
#include "kernels/attention/conv_static_key_attention/op.h"
#include "kernels/attention/criss_cross_attention/op.h"
#include "kernels/attention/dense_attention/op.h"
#include "kernels/attention/key_only_attention/op.h"
#include "kernels/attention/knn_attention/op.h"
#include "kernels/attention/knn_attention_exact/op.h"
#include "kernels/attention/static_key_attention/op.h"
#include "kernels/attention/window_attention/op.h"
#include "kernels/vision/roi_align/op.h"
#include "kernels/vision/rp_cpe/op.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

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

  // A bias of a shape that broadcasts to `full`, sometimes with masked places.
  OptionalTensor Bias(std::vector<int64_t> full, at::ScalarType type) {
    if (OneIn(2)) return std::nullopt;
    for (int64_t& size : full) {
      if (OneIn(3)) size = 1;
    }
    at::Tensor bias = Normal(full, OneIn(2) ? at::kFloat : type);
    if (OneIn(3)) bias = bias.masked_fill(at::rand(full).lt(0.3), -INFINITY);
    return bias;
  }
  // A bias of exactly this shape.
  OptionalTensor PositionBias(std::vector<int64_t> shape, at::ScalarType type) {
    if (OneIn(2)) return std::nullopt;
    return Normal(shape, OneIn(2) ? at::kFloat : type);
  }

 private:
  std::mt19937_64 random_;
};

// One operator with its arguments drawn. Runs as whichever implementation is forced, with tensors
// converted to the type that is asked for.
struct Case {
  std::string what;
  // How far the output can be off, in units of the type's precision.
  double magnitude = 1.0;
  std::function<at::Tensor(at::ScalarType)> run;
  // How large a logit can be: a softmax passes on each logit's rounding, which grows with it.
  double largest_logit = 0.0;
  // Rows [..., Nq] that rounding may turn over; undefined: none.
  at::Tensor ambiguous;
};

// |q| |k| |scale| of the longest rows [..., D]: no logit is larger (Cauchy-Schwarz), and each is a
// sum of terms whose rounding goes by this and not by the sum.
double LargestLogit(const at::Tensor& q, const at::Tensor& k, std::optional<double> scale) {
  const auto longest = [](const at::Tensor& t) {
    return t.to(at::kDouble).square().sum(-1).max().sqrt().item<double>();
  };
  const double size = static_cast<double>(q.size(-1));
  return longest(q) * longest(k) * std::abs(scale.value_or(1.0 / std::sqrt(size)));
}

std::string Text(const at::Tensor& t) {
  std::string text = c10::toString(t.scalar_type()) + std::string("[");
  for (int64_t i = 0; i < t.dim(); ++i) {
    text += std::to_string(t.size(i)) + ":" + std::to_string(t.stride(i)) +
            (i + 1 < t.dim() ? "," : "]");
  }
  return text;
}
std::string Text(const OptionalTensor& t) { return t ? Text(*t) : "-"; }

// `t` in `type`, its strides kept where it is that already.
at::Tensor In(at::ScalarType type, const at::Tensor& t) { return t.to(type); }
OptionalTensor In(at::ScalarType type, const OptionalTensor& t) {
  OptionalTensor converted;
  if (t) converted = type == at::kDouble ? t->to(type) : *t;
  return converted;
}

struct TokenSets {
  at::Tensor q, k, v;
};
TokenSets DrawTokenSets(Dice& dice, at::ScalarType type) {
  const int64_t batch = dice.Between(1, 3), heads = dice.Between(1, 4), dim = dice.HeadDim(),
                queries = dice.Tokens(), keys = dice.OneIn(2) ? queries : dice.Tokens();
  TokenSets t = {dice.Normal({batch, heads, queries, dim}, type),
                 dice.Normal({batch, heads, keys, dim}, type),
                 dice.Normal({batch, heads, keys, dim}, type)};
  return t;
}
TokenSets DrawMaps(Dice& dice, at::ScalarType type, int64_t heads, int64_t height, int64_t width) {
  const int64_t batch = dice.Between(1, 2), dim = dice.HeadDim();
  const auto map = [&] { return dice.Normal({batch, heads, height, width, dim}, type); };
  return {map(), map(), map()};
}
std::string Text(const TokenSets& t) { return Text(t.q) + Text(t.k) + Text(t.v); }

// Rows whose k-th and next score lie within rounding of each other.
at::Tensor Ambiguous(const at::Tensor& scores, int64_t topk) {
  if (topk >= scores.size(-1)) return {};
  const at::Tensor sorted = std::get<0>(at::sort(scores, -1, /*descending=*/true));
  const at::Tensor gap = sorted.select(-1, topk - 1) - sorted.select(-1, topk);
  const at::Tensor largest = scores.masked_fill(scores.isfinite().logical_not(), 0).abs().amax(-1);
  return gap.lt(largest * 1e-5 + 1e-30).logical_or(gap.isnan());
}

Case Dense(Dice& dice, at::ScalarType type) {
  const TokenSets t = DrawTokenSets(dice, type);
  const auto scale = dice.Scale();
  const auto bias = dice.Bias({t.q.size(0), t.q.size(1), t.q.size(2), t.k.size(2)}, type);
  return {"dense_attention " + Text(t) + Text(bias), 4.0,
          [=](at::ScalarType a) {
            return DenseAttention(In(a, t.q), In(a, t.k), In(a, t.v), scale, In(a, bias));
          },
          LargestLogit(t.q, t.k, scale)};
}

Case Knn(Dice& dice, at::ScalarType type, bool exact) {
  const TokenSets t = DrawTokenSets(dice, type);
  const int64_t topk = dice.Between(1, t.k.size(2));
  auto scale = dice.Scale();
  if (scale && *scale == 0.0) scale = 1.0;  // every row would be ambiguous
  const auto bias = dice.Bias({t.q.size(0), t.q.size(1), t.q.size(2), t.k.size(2)}, type);
  const at::Tensor key = t.k.to(at::kDouble);
  at::Tensor scores = at::matmul(t.q.to(at::kDouble), key.mT());
  if (exact) {
    scores = scores - key.square().sum(-1).unsqueeze(-2) / 2;
  } else {
    scores = scores * scale.value_or(1.0 / std::sqrt(static_cast<double>(t.q.size(3))));
    if (bias) scores = scores + bias->to(at::kDouble);
  }
  if (exact && bias) {
    scores = scores.masked_fill(bias->isfinite().logical_not(), -INFINITY);
  }
  return {std::string(exact ? "knn_attention_exact " : "knn_attention ") + Text(t) + Text(bias) +
              " topk " + std::to_string(topk),
          4.0,
          [=](at::ScalarType a) {
            const auto run = exact ? KnnAttentionExact : KnnAttention;
            return run(In(a, t.q), In(a, t.k), In(a, t.v), topk, scale, In(a, bias));
          },
          LargestLogit(t.q, t.k, scale), Ambiguous(scores, topk)};
}

Case Window(Dice& dice, at::ScalarType type) {
  const int64_t h = dice.Between(1, 8), w = dice.Between(1, 8), rows = dice.Between(1, 3),
                columns = dice.Between(1, 3), heads = dice.Between(1, 4);
  const TokenSets t = DrawMaps(dice, type, heads, h * rows, w * columns);
  const std::vector<int64_t> window = {h, w}, shift = {dice.OneIn(2) ? 0 : dice.Between(0, h - 1),
                                                       dice.OneIn(2) ? 0 : dice.Between(0, w - 1)};
  const auto scale = dice.Scale();
  const auto bias = dice.PositionBias({heads, h * w, h * w}, type);
  return {"window_attention " + Text(t) + Text(bias) + " window " + std::to_string(h) + "," +
              std::to_string(w) + " shift " + std::to_string(shift[0]) + "," +
              std::to_string(shift[1]),
          4.0,
          [=](at::ScalarType a) {
            return WindowAttention(In(a, t.q), In(a, t.k), In(a, t.v), window, shift, scale,
                                   In(a, bias));
          },
          LargestLogit(t.q, t.k, scale)};
}

Case CrissCross(Dice& dice, at::ScalarType type) {
  const TokenSets t =
      DrawMaps(dice, type, dice.Between(1, 4), dice.Between(1, 40), dice.Between(1, 20));
  const auto scale = dice.Scale();
  return {"criss_cross_attention " + Text(t), 4.0,
          [=](at::ScalarType a) {
            return CrissCrossAttention(In(a, t.q), In(a, t.k), In(a, t.v), scale);
          },
          LargestLogit(t.q, t.k, scale)};
}

Case AxialWindow(Dice& dice, at::ScalarType type) {
  const int64_t heads = 4 * dice.Between(1, 2), height = dice.Between(1, 20),
                width = dice.Between(1, 20), w = dice.Between(1, 8),
                shift = dice.OneIn(2) ? 0 : dice.Between(0, w - 1);
  const TokenSets t = DrawMaps(dice, type, heads, height, width);
  const auto scale = dice.Scale();
  const auto rows = dice.PositionBias({heads / 4, width, width}, type);
  const auto columns = dice.PositionBias({heads / 4, height, height}, type);
  const auto local = dice.PositionBias({heads / 2, w * w, w * w}, type);
  const auto pad = [&]() -> OptionalTensor {
    if (dice.OneIn(2)) return std::nullopt;
    return dice.Normal({heads / 2, t.q.size(4)}, type);
  };
  const OptionalTensor pad_key = pad(), pad_value = pad();
  return {"axial_window_attention " + Text(t) + Text(rows) + Text(columns) + Text(local) +
              Text(pad_key) + Text(pad_value) + " window " + std::to_string(w) + " shift " +
              std::to_string(shift),
          4.0,
          [=](at::ScalarType a) {
            return AxialWindowAttention(In(a, t.q), In(a, t.k), In(a, t.v), w, shift, scale,
                                        In(a, rows), In(a, columns), In(a, local), In(a, pad_key),
                                        In(a, pad_value));
          },
          LargestLogit(t.q, t.k, scale)};
}

struct DrawnActivation {
  std::string name;
  double scale, bias;
};
DrawnActivation DrawActivation(Dice& dice) {
  const std::string name = dice.Among<std::string>({"softmax", "gelu", "relu", "star_relu"});
  if (name != "star_relu") return {name, 1.0, 0.0};
  return {name, 0.8, -0.4};
}

// Weights that are not normalised add up: so do their errors, as random numbers do.
double Magnitude(const DrawnActivation& activation, int64_t keys) {
  return activation.name == "softmax" ? 4.0 : 2.0 * std::sqrt(static_cast<double>(keys));
}

Case StaticKey(Dice& dice, at::ScalarType type) {
  const TokenSets t = DrawTokenSets(dice, type);
  const at::Tensor key = dice.Normal({t.v.size(1), t.v.size(2), t.v.size(3)}, type);
  const DrawnActivation act = DrawActivation(dice);
  auto scale = dice.Scale();
  if (scale) *scale = std::min(*scale, 0.125);
  return {"static_key_attention " + Text(t) + Text(key) + act.name, Magnitude(act, t.v.size(2)),
          [=](at::ScalarType a) {
            return StaticKeyAttention(In(a, t.q), In(a, key), In(a, t.v), act.name, scale,
                                      act.scale, act.bias);
          },
          LargestLogit(t.q, key, scale)};
}

Case ConvStaticKey(Dice& dice, at::ScalarType type) {
  const int64_t height = dice.Between(1, 9), width = dice.Between(1, 9), m = height * width,
                batch = dice.Between(1, 2), heads = dice.Between(1, 3), dim = dice.HeadDim(),
                prefix = dice.Between(0, 1);
  const at::Tensor q = dice.Normal({batch, heads, m + prefix, dim}, type);
  const at::Tensor v = dice.Normal({batch, heads, m + prefix, dim}, type);
  const at::Tensor weight = (at::randn({heads * m, dim, 3, 3}) * 0.2).to(type);
  OptionalTensor bias, cls_key;
  if (dice.OneIn(2)) bias = at::randn({heads * m}).to(type);
  if (prefix == 1) cls_key = at::randn({heads, 1, dim}).to(type);
  const DrawnActivation act = DrawActivation(dice);
  const std::optional<double> scale =
      dice.OneIn(2) ? std::nullopt : std::optional(dice.Among<double>({0.125, -0.2, 0.05}));
  return {"conv_static_key_attention " + Text(q) + Text(v) + Text(bias) + act.name + " grid " +
              std::to_string(height) + "," + std::to_string(width),
          Magnitude(act, m), [=](at::ScalarType a) {
            const auto wide = [&](const OptionalTensor& t) {
              OptionalTensor converted;
              if (t) converted = t->to(a);
              return converted;
            };
            return ConvStaticKeyAttention(In(a, q), In(a, v), {height, width}, In(a, weight),
                                          wide(bias), wide(cls_key), act.name, scale, act.scale,
                                          act.bias);
          }};
}

Case KeyOnly(Dice& dice, at::ScalarType type) {
  const int64_t batch = dice.Between(1, 3), heads = dice.Between(1, 4), dim = dice.HeadDim(),
                tokens = dice.OneIn(4) ? dice.Between(200, 900) : dice.Tokens();
  const at::Tensor key = dice.Normal({batch, heads, tokens, dim}, type);
  const at::Tensor value = dice.Normal({batch, heads, tokens, dim}, type);
  const at::Tensor saliency = dice.Normal({heads, dim}, type);
  const auto scale = dice.Scale();
  return {"key_only_attention " + Text(key) + Text(value) + Text(saliency), 16.0,
          [=](at::ScalarType a) {
            return KeyOnlyAttention(In(a, key), In(a, value), In(a, saliency), scale);
          },
          LargestLogit(saliency, key, scale)};
}

Case RpCpeMap(Dice& dice, at::ScalarType type) {
  const int64_t batch = dice.Between(1, 2), channels = dice.Between(1, 70),
                height = dice.Between(1, 20), width = dice.Between(1, 20),
                branches = dice.Between(1, 4);
  at::Tensor x = at::randn({batch, channels, height, width}).to(type);
  if (dice.OneIn(2)) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  if (dice.OneIn(4)) x = x.transpose(2, 3);
  const at::Tensor weights = at::randn({branches, channels, 3, 3}).to(type);
  const at::Tensor biases = at::randn({branches, channels}).to(type);
  return {"rp_cpe " + Text(x) + Text(weights), 8.0,
          [=](at::ScalarType a) { return RpCpe(In(a, x), In(a, weights), In(a, biases)); }};
}

Case RoiAlignMap(Dice& dice, at::ScalarType type) {
  const int64_t batch = dice.Between(1, 2), channels = dice.Between(1, 40),
                height = dice.Between(1, 24), width = dice.Between(1, 24), k = dice.Between(0, 8);
  at::Tensor input = at::randn({batch, channels, height, width}).to(type);
  if (dice.OneIn(2)) input = input.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor rois = at::rand({k, 5}) * 40 - 5;
  if (k > 0) rois.select(1, 0).copy_(at::randint(batch, {k}));
  const int64_t h = dice.Between(1, 7), w = dice.Between(1, 7), sampling = dice.Between(0, 3);
  const bool aligned = dice.OneIn(2);
  return {"roi_align " + Text(input) + " rois " + std::to_string(k), 8.0, [=](at::ScalarType a) {
            return RoiAlign(In(a, input), a == at::kDouble ? rois.to(a) : rois, 0.5, h, w, sampling,
                            aligned);
          }};
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

// Empty where the implementation agrees with the reference in fp64, as far as its type can.
std::string Disagreement(const Case& c, at::ScalarType type, const Variant& variant) {
  at::Tensor truth, reference, output;
  {
    const ScopedForcedImplementation forced(Implementation::kReference);
    truth = c.run(at::kDouble);
    reference = c.run(type).to(at::kDouble);
  }
  {
    const ScopedVariant scope(variant);
    output = c.run(type).to(at::kDouble);
  }
  if (output.sizes() != truth.sizes()) return "another shape";
  if (truth.numel() == 0) return "";
  const auto error_of = [&](const at::Tensor& t) {
    at::Tensor off = (t - truth).abs();
    if (c.ambiguous.defined()) off = off.masked_fill(c.ambiguous.unsqueeze(-1), 0.0);
    return off.nan_to_num().max().item<double>();
  };
  at::Tensor nan = output.isnan().logical_xor(truth.isnan());
  if (c.ambiguous.defined()) nan = nan.masked_fill(c.ambiguous.unsqueeze(-1), false);
  if (nan.any().item<bool>()) return "NaN in other places";
  const double precision = type == at::kFloat ? 0x1p-20 : 0x1p-7;
  const double scale = truth.nan_to_num().abs().max().item<double>();
  const double error = error_of(output);
  // Large values cost digits: the reference in the same type says how many.
  const double rounding = c.magnitude + scale * (1.0 + c.largest_logit / 16.0);
  if (error <= 4 * error_of(reference) + precision * rounding) return "";
  return "error " + std::to_string(error) + " where the output reaches " + std::to_string(scale);
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
  const std::string wrong = Disagreement(c, type, variant);
  EXPECT_EQ(wrong, "") << "FOVEA_FUZZ_SEED=" << seed << ": " << variant.name << " " << c.what;
  ++counts[c.what.substr(0, c.what.find(' '))];
}

TEST(DifferentialFuzzTest, EveryImplementationAgreesWithItsReference) {
  if (simd::BestIsa() == simd::Isa::kNone) GTEST_SKIP() << "there is no CPU implementation here";
  const int64_t seconds = FromEnvironment("FOVEA_FUZZ_SECONDS", 60);
  uint64_t seed = FromEnvironment("FOVEA_FUZZ_SEED", 0);
  if (seed == 0) seed = static_cast<uint64_t>(std::random_device()()) << 20;
  std::printf("first seed %llu\n", static_cast<unsigned long long>(seed));
  std::map<std::string, int> counts;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end && !HasFailure()) RunCase(seed++, counts);
  for (const auto& [name, count] : counts) std::printf("%-28s %6d cases\n", name.c_str(), count);
  // Each had its turn.
  EXPECT_TRUE(HasFailure() || seconds < 30 || counts.size() == Operators().size());
}

}  // namespace
}  // namespace fovea::kernels
