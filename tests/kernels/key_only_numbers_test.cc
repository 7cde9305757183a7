// Key-only attention's numbers: every implementation, type and awkward size against fp64.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/attention/key_only_attention/op.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/key_only_truth.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {
namespace {

class KeyOnlyNumbersTest
    : public testing::TestWithParam<std::tuple<Variant, at::ScalarType, int64_t>> {
 protected:
  void SetUp() override {
    at::manual_seed(23);
    // Small tensors: sharing them among threads costs more than it saves.
    at::set_num_threads(1);
    const auto& [variant, type, tokens] = GetParam();
    if (const char* why = CannotRun(variant)) GTEST_SKIP() << why;
    const bool fast = variant.implementation != Implementation::kReference;
    if (fast && type == at::kDouble) GTEST_SKIP() << "only the reference takes fp64";
    if (variant.implementation == Implementation::kCpu && type == at::kHalf) {
      GTEST_SKIP() << "the CPU implementation takes no fp16";
    }
  }

  void ExpectAsGoodAsPlain(const KeyOnlyCase& c, const Variant& variant) {
    SCOPED_TRACE("head_dim " + std::to_string(c.key.size(3)));
    at::Tensor output;
    {
      const ScopedVariant scope(variant);
      output = KeyOnlyAttention(c.key, c.value, c.saliency, c.scale);
    }
    ASSERT_EQ(output.scalar_type(), c.key.scalar_type());
    kernels::ExpectAsGoodAsPlain(output, TruthOf(c), PlainForm(c));
  }
};

TEST_P(KeyOnlyNumbersTest, AreAsGoodAsPlainPyTorchs) {
  const auto& [variant, type, tokens] = GetParam();
  for (const int64_t dim : {32, 64}) {
    ExpectAsGoodAsPlain(RandomKeyOnlyCase(2, 2, tokens, dim, type), variant);
  }
}

std::string NameOf(const testing::TestParamInfo<KeyOnlyNumbersTest::ParamType>& info) {
  const auto& [variant, type, tokens] = info.param;
  return variant.name + "_" + c10::toString(type) + "_" + std::to_string(tokens);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, KeyOnlyNumbersTest,
    testing::Combine(testing::ValuesIn(AllVariants()), testing::Values(at::kFloat, at::kBFloat16),
                     testing::Values(1, 2, 3, 7, 49, 97, 197, 200, 257, 1025, 3136)),
    NameOf);
INSTANTIATE_TEST_SUITE_P(OtherTypes, KeyOnlyNumbersTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kHalf, at::kDouble),
                                          testing::Values(97)),
                         NameOf);

class KeyOnlyShapesTest : public KeyOnlyNumbersTest {};

TEST_P(KeyOnlyShapesTest, AnyHeadSizeIsRight) {
  const auto& [variant, type, tokens] = GetParam();
  for (const int64_t dim : {1, 2, 7, 8, 15, 16, 24, 33, 48, 80, 127, 128}) {
    ExpectAsGoodAsPlain(RandomKeyOnlyCase(1, 3, tokens, dim, type), variant);
  }
}

TEST_P(KeyOnlyShapesTest, AnyFiniteScaleIsRight) {
  const auto& [variant, type, tokens] = GetParam();
  KeyOnlyCase c = RandomKeyOnlyCase(1, 2, tokens, 32, type);
  for (const double scale : {-0.25, 0.0, 1e-30, 1.0, 1.5}) {
    c.scale = scale;
    ExpectAsGoodAsPlain(c, variant);
  }
}

// Logits that rise throughout: each block of tokens exceeds all before it.
TEST_P(KeyOnlyShapesTest, ALargestLogitMayComeLateOrEarly) {
  const auto& [variant, type, tokens] = GetParam();
  KeyOnlyCase c = RandomKeyOnlyCase(1, 2, tokens, 32, type);
  const at::Tensor slope = at::linspace(-9.0, 9.0, tokens).view({1, 1, tokens, 1});
  for (const double sign : {1.0, -1.0}) {
    KeyOnlyCase sloped = c;
    sloped.key = (c.key.to(at::kFloat) + sign * slope).to(type);
    sloped.saliency = at::rand({2, 32}).to(type);
    ExpectAsGoodAsPlain(sloped, variant);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, KeyOnlyShapesTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kBFloat16),
                                          testing::Values(5, 309)),
                         NameOf);

class KeyOnlyLongTest : public KeyOnlyNumbersTest {};

TEST_P(KeyOnlyLongTest, ManyTokensAreSummedAsWell) {
  const auto& [variant, type, tokens] = GetParam();
  ExpectAsGoodAsPlain(RandomKeyOnlyCase(1, 1, tokens, 32, type), variant);
}

INSTANTIATE_TEST_SUITE_P(HighResolution, KeyOnlyLongTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kBFloat16),
                                          testing::Values(65536)),
                         NameOf);

}  // namespace
}  // namespace fovea::kernels
