// k-NN attention's numbers: every implementation, type and awkward size against fp64.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/attention/knn_attention/op.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/knn_truth.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {
namespace {

class KnnNumbersTest : public testing::TestWithParam<std::tuple<Variant, at::ScalarType, int64_t>> {
 protected:
  void SetUp() override {
    at::manual_seed(17);
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

  void ExpectAsGoodAsPlain(const KnnCase& c, const Variant& variant) {
    SCOPED_TRACE("topk " + std::to_string(c.topk));
    const KnnTruth truth = TruthOf(c);
    at::Tensor output;
    {
      const ScopedVariant scope(variant);
      output = KnnAttention(c.query, c.key, c.value, c.topk, c.scale, c.bias);
    }
    ASSERT_EQ(output.scalar_type(), c.query.scalar_type());
    kernels::ExpectAsGoodAsPlain(output, truth.output, PlainForm(c, truth.selected),
                                 truth.ambiguous);
  }
};

TEST_P(KnnNumbersTest, AreAsGoodAsPlainPyTorchs) {
  const auto& [variant, type, tokens] = GetParam();
  const int64_t heads = tokens > 500 ? 1 : 2;
  for (const int64_t dim : {32, 64}) {
    for (const int64_t topk : std::set<int64_t>{1, std::max<int64_t>(1, tokens / 2), tokens}) {
      if (tokens > 500 && dim != 64) continue;
      if (tokens > 2000 && topk != tokens / 2) continue;
      ExpectAsGoodAsPlain(RandomCase(tokens > 100 ? 1 : 2, heads, tokens, dim, topk, type),
                          variant);
    }
  }
}

std::string NameOf(const testing::TestParamInfo<KnnNumbersTest::ParamType>& info) {
  const auto& [variant, type, tokens] = info.param;
  return variant.name + "_" + c10::toString(type) + "_" + std::to_string(tokens);
}

INSTANTIATE_TEST_SUITE_P(Sizes, KnnNumbersTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kBFloat16),
                                          testing::Values(1, 2, 3, 7, 49, 97, 197, 200, 257, 1025)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(LongRows, KnnNumbersTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat), testing::Values(3136)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(OtherTypes, KnnNumbersTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kHalf, at::kDouble),
                                          testing::Values(97)),
                         NameOf);

// Head sizes that fill no vector, and more queries or keys than the other.
class KnnShapesTest : public KnnNumbersTest {};

TEST_P(KnnShapesTest, AnyHeadSizeIsRight) {
  const auto& [variant, type, tokens] = GetParam();
  for (const int64_t dim : {1, 2, 7, 16, 24, 33, 48, 80, 128}) {
    ExpectAsGoodAsPlain(RandomCase(1, 2, tokens, dim, tokens / 3, type), variant);
  }
}

TEST_P(KnnShapesTest, QueriesAndKeysMayDifferInNumber) {
  const auto& [variant, type, tokens] = GetParam();
  for (const auto& [queries, keys] :
       {std::pair<int64_t, int64_t>{1, tokens}, {tokens, 1}, {tokens, 19}, {19, tokens}}) {
    KnnCase c = RandomCase(2, 2, tokens, 32, (keys + 1) / 2, type);
    c.query = c.query.narrow(2, tokens - queries, queries);
    c.key = c.key.narrow(2, 0, keys);
    c.value = c.value.narrow(2, 0, keys);
    ExpectAsGoodAsPlain(c, variant);
  }
}

TEST_P(KnnShapesTest, BiasBroadcastsFromEveryShape) {
  const auto& [variant, type, tokens] = GetParam();
  KnnCase c = RandomCase(2, 3, tokens, 32, tokens / 2, type);
  c.query = c.query.narrow(2, 0, 41);  // another number than the keys'
  const std::vector<std::vector<int64_t>> shapes = {{},
                                                    {1},
                                                    {tokens},
                                                    {41, 1},
                                                    {41, tokens},
                                                    {3, 1, 1},
                                                    {3, 41, tokens},
                                                    {2, 1, 1, tokens},
                                                    {1, 3, 41, 1},
                                                    {2, 3, 41, tokens}};
  for (const std::vector<int64_t>& shape : shapes) {
    c.bias = at::randn(shape);
    ExpectAsGoodAsPlain(c, variant);
    c.bias = c.bias->to(type);
    ExpectAsGoodAsPlain(c, variant);
  }
  c.bias = at::randn({tokens, 41}).t();
  ExpectAsGoodAsPlain(c, variant);
}

TEST_P(KnnShapesTest, AnyFiniteScaleIsRight) {
  const auto& [variant, type, tokens] = GetParam();
  KnnCase c = RandomCase(1, 2, tokens, 32, tokens / 2, type);
  for (const double scale : {-0.25, 1e-30, 1.0, 1.5}) {
    c.scale = scale;
    ExpectAsGoodAsPlain(c, variant);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, KnnShapesTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kBFloat16),
                                          testing::Values(97)),
                         NameOf);

}  // namespace
}  // namespace fovea::kernels
