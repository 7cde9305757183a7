// An attention operator as a test case: one call of it, and its definition in plain PyTorch.
//
// The definition runs in its inputs' type: in fp64 it is the truth, in their own type it says how
// far off plain PyTorch is. It is written apart from the operator's reference, which it also
// checks.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernels/variants.h"

namespace fovea::kernels {

using Tensors = std::vector<at::Tensor>;

struct AttentionCase {
  using Function = std::function<at::Tensor(const Tensors&)>;
  std::string name;
  Tensors inputs;       // query first; a tensor that is not given is undefined
  Function run;         // the operator
  Function definition;  // for finite inputs, -inf masks, NaN
  // Rows [B, H, tokens] in which rounding may decide, from inputs in fp64; empty: there are none.
  Function ambiguous = nullptr;
};

inline void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.name; }

inline Tensors InFp64(const Tensors& tensors) {
  Tensors wide;
  for (const at::Tensor& t : tensors) wide.push_back(t.defined() ? t.to(at::kDouble) : t);
  return wide;
}

inline at::Tensor RunAs(const Variant& variant, const AttentionCase& c) {
  const ScopedVariant scope(variant);
  return c.run(c.inputs);
}

// The error rule: at most twice plain PyTorch's in the same type and 1e-6 of the scale, in every
// row but the ambiguous ones, of which there must be few.
inline void ExpectAsGoodAsPlain(const at::Tensor& output, const at::Tensor& truth,
                                const at::Tensor& plain, const at::Tensor& ambiguous = {}) {
  ASSERT_EQ(output.scalar_type(), plain.scalar_type());
  ASSERT_EQ(output.sizes(), truth.sizes());
  const auto error_of = [&](const at::Tensor& t) {
    at::Tensor errors = (t.to(at::kDouble) - truth).abs().amax(-1);
    if (ambiguous.defined()) errors = errors.masked_fill(ambiguous, 0.0);
    return errors.max().item<double>();
  };
  if (ambiguous.defined()) {
    EXPECT_LE(ambiguous.to(at::kDouble).mean().item<double>(), 0.01);
  }
  const double error = error_of(output);
  const double plain_error = error_of(plain);
  EXPECT_LE(error, 2.0 * plain_error + 1e-6 * truth.abs().max().item<double>())
      << "plain PyTorch's " << plain_error << ", shape " << output.sizes();
}

inline void ExpectAsGoodAsPlain(const AttentionCase& c, const Variant& variant) {
  SCOPED_TRACE(c.name);
  const Tensors wide = InFp64(c.inputs);
  ExpectAsGoodAsPlain(RunAs(variant, c), c.definition(wide), c.definition(c.inputs),
                      c.ambiguous ? c.ambiguous(wide) : at::Tensor());
}

class VariantTest : public testing::TestWithParam<std::tuple<Variant, at::ScalarType>> {
 protected:
  void SetUp() override {
    at::manual_seed(17);
    // Small tensors: sharing them among threads costs more than it saves.
    at::set_num_threads(1);
    if (const char* why = CannotRun(variant())) GTEST_SKIP() << why;
  }

  const Variant& variant() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<1>(GetParam()); }
  bool is_reference() const { return variant().implementation == Implementation::kReference; }
};

inline std::string NameOf(const testing::TestParamInfo<VariantTest::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + c10::toString(std::get<1>(info.param));
}

// Every implementation with the types it takes.
inline std::vector<VariantTest::ParamType> EveryVariantAndType() {
  std::vector<VariantTest::ParamType> all;
  for (const Variant& variant : AllVariants()) {
    all.emplace_back(variant, at::kFloat);
    all.emplace_back(variant, at::kBFloat16);
    if (variant.implementation != Implementation::kReference) continue;
    all.emplace_back(variant, at::kHalf);
    all.emplace_back(variant, at::kDouble);
  }
  return all;
}

inline constexpr double kMasked = -std::numeric_limits<double>::infinity();

// Softmax of the last dimension, zero where all is -inf.
inline at::Tensor SoftmaxOverFinite(const at::Tensor& logits) {
  const at::Tensor masked = logits.eq(kMasked).all(-1, /*keepdim=*/true);
  return at::where(masked, at::zeros({}, logits.options()), at::softmax(logits, -1));
}

// Query, key and value [B, heads, tokens, D] as a model has them: views of one QKV tensor.
inline Tensors RandomTokens(int64_t batch, int64_t heads, int64_t tokens, int64_t dim,
                            at::ScalarType type) {
  return at::randn({batch, tokens, 3, heads, dim}).to(type).permute({2, 0, 3, 1, 4}).unbind(0);
}

// The same of a map, [B, heads, height, width, D].
inline Tensors RandomMaps(int64_t batch, int64_t heads, int64_t height, int64_t width, int64_t dim,
                          at::ScalarType type) {
  return at::randn({batch, height, width, 3, heads, dim})
      .to(type)
      .permute({3, 0, 4, 1, 2, 5})
      .unbind(0);
}

}  // namespace fovea::kernels
