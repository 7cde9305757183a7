// Key-only attention's numbers: every implementation, type and awkward size against fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kernels/attention/key_only_attention/op.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/key_only_truth.h"

namespace fovea::kernels {
namespace {

void ExpectRight(const KeyOnlyCase& c) {
  SCOPED_TRACE(testing::Message() << "key " << c.key.sizes());
  ExpectEveryVariant(c.key.scalar_type(), ExpectedOf(c),
                     [&] { return KeyOnlyAttention(c.key, c.value, c.saliency, c.scale); });
}

class KeyOnlyNumbersTest : public NumbersTest {};

TEST_P(KeyOnlyNumbersTest, EveryNumberOfTokensIsRight) {
  for (const int64_t tokens : {1, 2, 3, 7, 49, 97, 197, 200, 257, 1025, 3136}) {
    for (const int64_t dim : {32, 64}) ExpectRight(RandomKeyOnlyCase(2, 2, tokens, dim, type()));
  }
}

TEST_P(KeyOnlyNumbersTest, AnyHeadSizeIsRight) {
  for (const int64_t tokens : {5, 309}) {
    for (const int64_t dim : {1, 2, 7, 8, 15, 16, 24, 33, 48, 80, 127, 128}) {
      ExpectRight(RandomKeyOnlyCase(1, 3, tokens, dim, type()));
    }
  }
}

TEST_P(KeyOnlyNumbersTest, AnyFiniteScaleIsRight) {
  for (const int64_t tokens : {5, 309}) {
    KeyOnlyCase c = RandomKeyOnlyCase(1, 2, tokens, 32, type());
    for (const double scale : {-0.25, 0.0, 1e-30, 1.0, 1.5}) {
      c.scale = scale;
      ExpectRight(c);
    }
  }
}

// Logits that rise throughout: each block of tokens exceeds all before it.
TEST_P(KeyOnlyNumbersTest, ALargestLogitMayComeLateOrEarly) {
  for (const int64_t tokens : {5, 309}) {
    KeyOnlyCase c = RandomKeyOnlyCase(1, 2, tokens, 32, type());
    const at::Tensor slope = at::linspace(-9.0, 9.0, tokens).view({1, 1, tokens, 1});
    for (const double sign : {1.0, -1.0}) {
      KeyOnlyCase sloped = c;
      sloped.key = (c.key.to(at::kFloat) + sign * slope).to(type());
      sloped.saliency = at::rand({2, 32}).to(type());
      ExpectRight(sloped);
    }
  }
}

TEST_P(KeyOnlyNumbersTest, ManyTokensAreSummedAsWell) {
  ExpectRight(RandomKeyOnlyCase(1, 1, 65536, 32, type()));
}

INSTANTIATE_TEST_SUITE_P(Types, KeyOnlyNumbersTest, EveryType(), TypeOf);

}  // namespace
}  // namespace fovea::kernels
