// What key-only attention refuses, and what it says: the operator, the argument and the value.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "kernels/attention/key_only_attention/op.h"

namespace fovea::kernels {
namespace {

using testing::HasSubstr;

struct Arguments {
  at::Tensor key = at::randn({2, 3, 5, 8});
  at::Tensor value = at::randn({2, 3, 5, 8});
  at::Tensor saliency = at::randn({3, 8});
  std::optional<double> scale = std::nullopt;
};

std::string ErrorOf(const Arguments& a) {
  try {
    KeyOnlyAttention(a.key, a.value, a.saliency, a.scale);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(KeyOnlyContractTest, ValidArgumentsAreTaken) { EXPECT_EQ(ErrorOf({}), "no error"); }

TEST(KeyOnlyContractTest, RanksAndShapesAreChecked) {
  Arguments a;
  a.key = at::randn({3, 5, 8});
  EXPECT_EQ(ErrorOf(a),
            "key_only_attention: key must have 4 dimensions [batch, heads, tokens, head_dim], got "
            "shape [3, 5, 8]");
  a = {};
  a.value = at::randn({1, 3, 5, 8});
  EXPECT_EQ(ErrorOf(a),
            "key_only_attention: value must have key's batch size 2, got shape [1, 3, 5, 8]");
  a = {};
  a.value = at::randn({2, 4, 5, 8});
  EXPECT_THAT(ErrorOf(a), HasSubstr("value must have key's head count 3"));
  a = {};
  a.value = at::randn({2, 3, 6, 8});
  EXPECT_THAT(ErrorOf(a), HasSubstr("value must have key's token count 5"));
  a = {};
  a.value = at::randn({2, 3, 5, 9});
  EXPECT_THAT(ErrorOf(a), HasSubstr("value must have key's head_dim 8"));
  a = {};
  a.saliency = at::randn({8, 3});
  EXPECT_EQ(ErrorOf(a),
            "key_only_attention: saliency must have shape [heads, head_dim] = [3, 8], got shape "
            "[8, 3]");
  a.saliency = at::randn({24});
  EXPECT_THAT(ErrorOf(a), HasSubstr("got shape [24]"));
}

TEST(KeyOnlyContractTest, TokensAndChannelsMayNotBeMissing) {
  Arguments a;
  a.key = a.value = at::randn({2, 3, 0, 8});
  EXPECT_EQ(ErrorOf(a),
            "key_only_attention: key must have at least one token, got shape [2, 3, 0, 8]");
  a.key = a.value = at::randn({2, 3, 5, 0});
  EXPECT_THAT(ErrorOf(a), HasSubstr("key must have at least one channel"));
}

TEST(KeyOnlyContractTest, TypesDevicesAndLayoutsAreChecked) {
  Arguments a;
  a.key = a.key.to(at::kInt);
  EXPECT_EQ(ErrorOf(a), "key_only_attention: key must be Float, BFloat16, Half or Double, got Int");
  a = {};
  a.value = a.value.to(at::kBFloat16);
  EXPECT_EQ(ErrorOf(a), "key_only_attention: value must have key's type Float, got BFloat16");
  a = {};
  a.saliency = a.saliency.to(at::kBFloat16);
  EXPECT_EQ(ErrorOf(a), "key_only_attention: saliency must have key's type Float, got BFloat16");
  a = {};
  a.saliency = at::empty({3, 8}, at::kMeta);
  EXPECT_EQ(ErrorOf(a), "key_only_attention: saliency must be on key's device cpu, got meta");
  a = {};
  a.value = at::randn({2, 3, 8, 5}).transpose(2, 3);
  EXPECT_EQ(ErrorOf(a),
            "key_only_attention: value must be contiguous in its last dimension, got strides "
            "[120, 40, 1, 5]");
}

TEST(KeyOnlyContractTest, ScaleIsFinite) {
  Arguments a;
  a.scale = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ErrorOf(a), "key_only_attention: scale must be finite, got inf");
}

TEST(KeyOnlyContractTest, TheMetaImplementationChecksAndAllocatesAlike) {
  Arguments a;
  const at::Tensor real = KeyOnlyAttention(a.key, a.value, a.saliency);
  a.key = a.value = at::empty({2, 3, 5, 8}, at::kMeta);
  EXPECT_THAT(ErrorOf(a), HasSubstr("saliency must be on key's device meta, got cpu"));
  a.saliency = at::empty({3, 8}, at::kMeta);
  const at::Tensor meta = KeyOnlyAttention(a.key, a.value, a.saliency);
  EXPECT_EQ(meta.sizes(), real.sizes());
  EXPECT_EQ(meta.strides(), real.strides());
}

}  // namespace
}  // namespace fovea::kernels
