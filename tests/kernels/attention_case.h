// An operator as a test case: one call of it, and its definition, in fp64 and with the bound that
// rounding.h works out. The definition is written apart from the operator's reference, which it
// also checks.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernels/rounding.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {

using Tensors = std::vector<at::Tensor>;

struct AttentionCase {
  std::string name;
  Tensors inputs;  // query first; a tensor that is not given is undefined
  std::function<at::Tensor(const Tensors&)> run;  // the operator
  // From inputs in fp64, for finite inputs, -inf masks, NaN; and what the operator's roundings are.
  std::function<Rounded(const Tensors&, const Precision&)> definition;
};

inline void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.name; }

inline Tensors InFp64(const Tensors& tensors) {
  Tensors wide;
  for (const at::Tensor& t : tensors) wide.push_back(t.defined() ? t.to(at::kDouble) : t);
  return wide;
}

inline Rounded Expected(const AttentionCase& c) {
  return c.definition(InFp64(c.inputs), PrecisionOf(c.inputs[0].scalar_type()));
}

inline at::Tensor RunAs(const Variant& variant, const AttentionCase& c) {
  const ScopedVariant scope(variant);
  return c.run(c.inputs);
}

// Runs `run` as every implementation that takes this type and that this machine has, against one
// truth.
inline void ExpectEveryVariant(at::ScalarType type, const Rounded& expected,
                               const std::function<at::Tensor()>& run) {
  for (const Variant& variant : AllVariants()) {
    if (!Takes(variant, type) || CannotRun(variant) != nullptr) continue;
    SCOPED_TRACE(variant.name);
    const ScopedVariant scope(variant);
    const at::Tensor output = run();
    ASSERT_EQ(output.scalar_type(), type);
    ExpectWithinRounding(output, expected);
  }
}

inline void ExpectRight(const AttentionCase& c) {
  SCOPED_TRACE(c.name);
  ExpectEveryVariant(c.inputs[0].scalar_type(), Expected(c), [&] { return c.run(c.inputs); });
}

// Numbers, in each type.
class NumbersTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    at::manual_seed(17);
    // Small tensors: sharing them among threads costs more than it saves.
    at::set_num_threads(1);
  }

  at::ScalarType type() const { return GetParam(); }
};

inline auto EveryType() {
  return testing::Values(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
}
// Those that more than the reference takes.
inline auto VectorisedTypes() { return testing::Values(at::kFloat, at::kBFloat16); }

inline std::string TypeOf(const testing::TestParamInfo<at::ScalarType>& info) {
  return c10::toString(info.param);
}

// One implementation and type each.
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
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
      if (Takes(variant, type)) all.emplace_back(variant, type);
    }
  }
  return all;
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
