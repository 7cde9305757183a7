// What RP-CPE refuses, and what it says: the operator, the argument and the value.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/vision/rp_cpe/merge.h"
#include "kernels/vision/rp_cpe/op.h"

namespace fovea::kernels {
namespace {

using testing::HasSubstr;

struct Arguments {
  at::Tensor x = at::randn({2, 6, 5, 4});
  at::Tensor weights = at::randn({4, 6, 3, 3});
  at::Tensor biases = at::randn({4, 6});
};

template <class F>
std::string ErrorOf(const F& run) {
  try {
    run();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

std::string ErrorOf(const Arguments& a) {
  return ErrorOf([&] { RpCpe(a.x, a.weights, a.biases); });
}

TEST(RpCpeContractTest, ValidArgumentsAreTaken) { EXPECT_EQ(ErrorOf(Arguments{}), "no error"); }

TEST(RpCpeContractTest, RanksAreChecked) {
  Arguments a;
  a.x = at::randn({2, 20, 6});
  EXPECT_EQ(ErrorOf(a),
            "rp_cpe: x must have 4 dimensions [batch, channels, height, width], got shape "
            "[2, 20, 6]");
  a = {};
  a.weights = at::randn({6, 3, 3});
  EXPECT_EQ(ErrorOf(a),
            "rp_cpe: weights must have 4 dimensions [branches, channels, 3, 3], got shape "
            "[6, 3, 3]");
  a = {};
  a.biases = at::randn({6});
  EXPECT_EQ(ErrorOf(a),
            "rp_cpe: biases must have 2 dimensions [branches, channels], got shape [6]");
}

TEST(RpCpeContractTest, ShapesAreChecked) {
  Arguments a;
  a.weights = at::randn({4, 5, 3, 3});
  EXPECT_EQ(ErrorOf(a), "rp_cpe: weights must have x's channel count 6, got shape [4, 5, 3, 3]");
  a.weights = at::randn({4, 6, 5, 3});
  EXPECT_EQ(ErrorOf(a), "rp_cpe: weights must have 3 kernel rows, got shape [4, 6, 5, 3]");
  a.weights = at::randn({4, 6, 3, 1});
  EXPECT_EQ(ErrorOf(a), "rp_cpe: weights must have 3 kernel columns, got shape [4, 6, 3, 1]");
  a = {};
  a.biases = at::randn({3, 6});
  EXPECT_EQ(ErrorOf(a), "rp_cpe: biases must have weights's branch count 4, got shape [3, 6]");
  a.biases = at::randn({4, 7});
  EXPECT_EQ(ErrorOf(a), "rp_cpe: biases must have weights's channel count 6, got shape [4, 7]");
}

TEST(RpCpeContractTest, NothingButTheBatchMayBeMissing) {
  Arguments a;
  a.x = at::randn({2, 6, 0, 4});
  EXPECT_EQ(ErrorOf(a), "rp_cpe: x must have at least one row, got shape [2, 6, 0, 4]");
  a.x = at::randn({2, 6, 5, 0});
  EXPECT_EQ(ErrorOf(a), "rp_cpe: x must have at least one column, got shape [2, 6, 5, 0]");
  a.x = at::randn({2, 0, 5, 4});
  EXPECT_EQ(ErrorOf(a), "rp_cpe: x must have at least one channel, got shape [2, 0, 5, 4]");
  a = {};
  a.weights = at::randn({0, 6, 3, 3});
  EXPECT_EQ(ErrorOf(a), "rp_cpe: weights must have at least one branch, got shape [0, 6, 3, 3]");
}

TEST(RpCpeContractTest, TypesAndDevicesAreChecked) {
  Arguments a;
  a.x = a.x.to(at::kInt);
  EXPECT_EQ(ErrorOf(a), "rp_cpe: x must be Float, BFloat16, Half or Double, got Int");
  a = {};
  a.weights = a.weights.to(at::kBFloat16);
  EXPECT_EQ(ErrorOf(a), "rp_cpe: weights must be Float or have x's type Float, got BFloat16");
  a = {};
  a.biases = a.biases.to(at::kDouble);
  EXPECT_EQ(ErrorOf(a), "rp_cpe: biases must be Float or have x's type Float, got Double");
  a = {};
  a.weights = at::empty({4, 6, 3, 3}, at::kMeta);
  EXPECT_EQ(ErrorOf(a), "rp_cpe: weights must be on x's device cpu, got meta");
}

TEST(RpCpeContractTest, TheMetaImplementationChecksAndAllocatesAlike) {
  Arguments a;
  const at::Tensor real = RpCpe(a.x, a.weights, a.biases);
  const auto to_meta = [](at::Tensor& t) { t = t.to(at::kMeta); };
  to_meta(a.x);
  to_meta(a.weights);
  to_meta(a.biases);
  const at::Tensor meta = RpCpe(a.x, a.weights, a.biases);
  EXPECT_EQ(meta.sizes(), real.sizes());
  EXPECT_EQ(meta.strides(), real.strides());
  a.biases = at::empty({3, 6}, at::kMeta);
  EXPECT_THAT(ErrorOf(a), HasSubstr("branch count 4"));
}

TEST(RpCpeContractTest, MergingChecksItsShapesToo) {
  const Arguments a;
  RpCpeNorms norms{a.biases, a.biases, a.biases, at::ones({4, 6})};
  EXPECT_EQ(ErrorOf([&] { MergeRpCpe({a.weights, a.biases}, norms); }), "no error");
  norms.running_mean = at::randn({6});
  EXPECT_EQ(ErrorOf([&] {
              MergeRpCpe({a.weights, a.biases}, norms);
            }),
            "MergeRpCpe: running_mean must have 2 dimensions [branches, channels], got shape [6]");
  EXPECT_EQ(ErrorOf([&] {
              MergeRpCpe({a.weights, at::randn({4, 5})});
            }),
            "MergeRpCpe: biases must have weights's channel count 6, got shape [4, 5]");
}

}  // namespace
}  // namespace fovea::kernels
