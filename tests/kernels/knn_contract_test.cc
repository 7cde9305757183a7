// What k-NN attention refuses, and what it says: the operator, the argument and the value.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/attention/knn_attention/op.h"

namespace fovea::kernels {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Arguments {
  at::Tensor query = at::randn({2, 3, 5, 8});
  at::Tensor key = at::randn({2, 3, 7, 8});
  at::Tensor value = at::randn({2, 3, 7, 8});
  int64_t topk = 3;
  std::optional<double> scale = std::nullopt;
  std::optional<at::Tensor> bias = std::nullopt;
};

std::string ErrorOf(const Arguments& a) {
  try {
    KnnAttention(a.query, a.key, a.value, a.topk, a.scale, a.bias);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(KnnContractTest, ValidArgumentsAreTaken) { EXPECT_EQ(ErrorOf({}), "no error"); }

TEST(KnnContractTest, RanksAreChecked) {
  Arguments a;
  a.query = at::randn({3, 5, 8});
  EXPECT_EQ(ErrorOf(a),
            "knn_attention: query must have 4 dimensions [batch, heads, tokens, head_dim], got "
            "shape [3, 5, 8]");
  a = {};
  a.value = at::randn({8});
  EXPECT_THAT(ErrorOf(a), HasSubstr("value must have 4 dimensions"));
}

TEST(KnnContractTest, ShapesAreChecked) {
  Arguments a;
  a.key = at::randn({1, 3, 7, 8});
  EXPECT_EQ(ErrorOf(a),
            "knn_attention: key must have query's batch size 2, got shape [1, 3, 7, 8]");
  a = {};
  a.value = at::randn({2, 4, 7, 8});
  EXPECT_EQ(ErrorOf(a),
            "knn_attention: value must have query's head count 3, got shape [2, 4, 7, 8]");
  a = {};
  a.key = at::randn({2, 3, 7, 9});
  EXPECT_EQ(ErrorOf(a), "knn_attention: key must have query's head_dim 8, got shape [2, 3, 7, 9]");
  a = {};
  a.value = at::randn({2, 3, 6, 8});
  EXPECT_EQ(ErrorOf(a),
            "knn_attention: value must have key's token count 7, got shape [2, 3, 6, 8]");
}

TEST(KnnContractTest, TokensAndChannelsMayNotBeMissing) {
  Arguments a;
  a.query = at::randn({2, 3, 0, 8});
  EXPECT_EQ(ErrorOf(a),
            "knn_attention: query must have at least one token, got shape [2, 3, 0, 8]");
  a = {};
  a.key = at::randn({2, 3, 0, 8});
  EXPECT_THAT(ErrorOf(a), HasSubstr("key must have at least one token"));
  a = {};
  a.query = at::randn({2, 3, 5, 0});
  EXPECT_THAT(ErrorOf(a), HasSubstr("query must have at least one channel"));
}

TEST(KnnContractTest, TypesAreChecked) {
  Arguments a;
  a.key = a.key.to(at::kBFloat16);
  EXPECT_EQ(ErrorOf(a), "knn_attention: key must have query's type Float, got BFloat16");
  a = {};
  a.query = a.query.to(at::kInt);
  EXPECT_EQ(ErrorOf(a), "knn_attention: query must be Float, BFloat16, Half or Double, got Int");
  a = {};
  a.bias = at::zeros({7}, at::kHalf);
  EXPECT_EQ(ErrorOf(a), "knn_attention: bias must be Float or have query's type Float, got Half");
}

TEST(KnnContractTest, DevicesAreChecked) {
  Arguments a;
  a.key = at::empty({2, 3, 7, 8}, at::kMeta);
  EXPECT_EQ(ErrorOf(a), "knn_attention: key must be on query's device cpu, got meta");
  a = {};
  a.bias = at::empty({7}, at::kMeta);
  EXPECT_EQ(ErrorOf(a), "knn_attention: bias must be on query's device cpu, got meta");
}

TEST(KnnContractTest, LayoutsAreChecked) {
  Arguments a;
  a.value = at::randn({2, 3, 8, 7}).transpose(2, 3);
  EXPECT_EQ(ErrorOf(a),
            "knn_attention: value must be contiguous in its last dimension, got strides "
            "[168, 56, 1, 7]");
  a = {};
  a.query = a.query.to_sparse();
  EXPECT_THAT(ErrorOf(a), testing::AnyOf(HasSubstr("query must be a strided tensor"),
                                         HasSubstr("Could not run 'fovea::knn_attention'")));
}

TEST(KnnContractTest, TopkIsWithinTheKeys) {
  Arguments a;
  for (const int64_t topk :
       {int64_t{0}, int64_t{-4}, int64_t{8}, std::numeric_limits<int64_t>::max()}) {
    a.topk = topk;
    EXPECT_EQ(ErrorOf(a),
              "knn_attention: topk must be in [1, 7] (key's tokens), got " + std::to_string(topk));
  }
}

TEST(KnnContractTest, ScaleIsFinite) {
  Arguments a;
  a.scale = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ErrorOf(a), "knn_attention: scale must be finite, got inf");
  a.scale = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(ErrorOf(a), StartsWith("knn_attention: scale must be finite, got"));
}

TEST(KnnContractTest, BiasBroadcasts) {
  Arguments a;
  a.bias = at::zeros({5, 6});
  EXPECT_EQ(ErrorOf(a),
            "knn_attention: bias must broadcast to [batch, heads, query tokens, key tokens] = "
            "[2, 3, 5, 7], got shape [5, 6]");
  a.bias = at::zeros({1, 2, 3, 5, 7});
  EXPECT_THAT(ErrorOf(a), HasSubstr("got shape [1, 2, 3, 5, 7]"));
  a.bias = at::zeros({0});
  EXPECT_THAT(ErrorOf(a), HasSubstr("got shape [0]"));
}

TEST(KnnContractTest, TheMetaImplementationChecksAndAllocatesAlike) {
  Arguments a;
  a.query = at::empty({2, 3, 5, 8}, at::kMeta);
  a.key = at::empty({2, 3, 7, 8}, at::kMeta);
  a.value = at::empty({2, 3, 7, 8}, at::kMeta);
  a.topk = 8;
  EXPECT_THAT(ErrorOf(a), HasSubstr("topk must be in [1, 7]"));
  const at::Tensor real =
      KnnAttention(at::randn({2, 3, 5, 8}), at::randn({2, 3, 7, 8}), at::randn({2, 3, 7, 8}), 3);
  const at::Tensor meta = KnnAttention(a.query, a.key, a.value, 3);
  EXPECT_EQ(meta.sizes(), real.sizes());
  EXPECT_EQ(meta.strides(), real.strides());
}

}  // namespace
}  // namespace fovea::kernels
