#include "model_zoo/costs/operation_counter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/attention/axial_window_attention/op.h"
#include "kernels/attention/conv_static_key_attention/op.h"
#include "kernels/attention/criss_cross_attention/op.h"
#include "kernels/attention/dense_attention/op.h"
#include "kernels/attention/knn_attention/op.h"
#include "kernels/attention/window_attention/op.h"
#include "kernels/dispatch.h"

namespace fovea::models {
namespace {

template <typename Run>
int64_t MultiplyAdds(Run run) {
  const at::NoGradGuard no_grad;
  const OperationCounter counter;
  run();
  return counter.multiply_adds();
}

at::Tensor Normal(at::IntArrayRef sizes) { return at::randn(sizes); }

TEST(OperationCounterTest, ALinearLayerCostsItsMatrixForEachRow) {
  const at::Tensor x = Normal({2, 5, 3}), weight = Normal({7, 3}), bias = Normal({7});
  EXPECT_EQ(MultiplyAdds([&] { at::linear(x, weight, bias); }), 2 * 5 * 3 * 7);
  EXPECT_EQ(MultiplyAdds([&] { at::linear(x, weight); }), 2 * 5 * 3 * 7);
}

TEST(OperationCounterTest, AConvolutionCostsItsKernelForEachOutput) {
  const at::Tensor x = Normal({2, 6, 9, 8});
  EXPECT_EQ(MultiplyAdds([&] {
              at::conv2d(x, Normal({4, 6, 3, 3}), {}, 2, 1);
            }),
            2 * 4 * 5 * 4 * (6 * 9));
  EXPECT_EQ(MultiplyAdds([&] {
              at::conv2d(x, Normal({6, 1, 3, 3}), {}, 1, 1, 1, 6);
            }),
            2 * 6 * 9 * 8 * 9);  // depth-wise
}

TEST(OperationCounterTest, ATransposedConvolutionCostsItsKernelForEachInput) {
  EXPECT_EQ(MultiplyAdds([] {
              at::conv_transpose2d(Normal({2, 6, 9, 8}), Normal({6, 4, 2, 2}), {}, {2, 2});
            }),
            2 * 6 * 9 * 8 * (4 * 2 * 2));
}

TEST(OperationCounterTest, MatrixProductsCount) {
  EXPECT_EQ(MultiplyAdds([] {
              at::matmul(Normal({2, 3, 4, 5}), Normal({2, 3, 5, 6}));
            }),
            2 * 3 * 4 * 5 * 6);
  EXPECT_EQ(MultiplyAdds([] { at::mm(Normal({4, 5}), Normal({5, 6})); }), 4 * 5 * 6);
}

TEST(OperationCounterTest, WhatIsNoProductCountsNothing) {
  EXPECT_EQ(MultiplyAdds([] { at::softmax(Normal({4, 5}) + 1, 1).mul_(2); }), 0);
}

TEST(OperationCounterTest, AnAttentionCountsByItsDefinitionWhateverRunsIt) {
  const at::Tensor q = Normal({2, 3, 7, 8}), k = Normal({2, 3, 9, 8}), v = Normal({2, 3, 9, 8});
  const int64_t dense = 2 * (2 * 3 * 7 * 9 * 8);
  EXPECT_EQ(MultiplyAdds([&] { kernels::DenseAttention(q, k, v); }), dense);
  EXPECT_EQ(MultiplyAdds([&] { kernels::KnnAttention(q, k, v, 4); }), dense);
  EXPECT_EQ(MultiplyAdds([&] { at::scaled_dot_product_attention(q, k, v); }), dense);
  // The reference's own products belong to it.
  const kernels::ScopedForcedImplementation forced(kernels::Implementation::kReference);
  EXPECT_EQ(MultiplyAdds([&] { kernels::DenseAttention(q, k, v); }), dense);
}

TEST(OperationCounterTest, AnAttentionOfMapsCountsTheKeysThatEachPositionSees) {
  const at::Tensor map = Normal({1, 4, 6, 8, 5});
  const int64_t elements = map.numel();
  EXPECT_EQ(MultiplyAdds([&] {
              kernels::WindowAttention(map, map, map, {3, 2}, {1, 0});
            }),
            2 * elements * 6);
  EXPECT_EQ(MultiplyAdds([&] { kernels::CrissCrossAttention(map, map, map); }),
            2 * elements * (6 + 8 - 1));
  // A quarter of the heads sees 8 keys, a quarter 6, half of them 2 x 2.
  EXPECT_EQ(MultiplyAdds([&] { kernels::AxialWindowAttention(map, map, map, 2, 0); }),
            2 * (elements / 4) * 8 + 2 * (elements / 4) * 6 + 2 * (elements / 2) * 4);
}

TEST(OperationCounterTest, AConvolutionalStaticKeyCostsNineLogits) {
  const at::Tensor q = Normal({2, 3, 12, 5}), weight = Normal({3 * 12, 5, 3, 3});
  EXPECT_EQ(MultiplyAdds([&] {
              kernels::ConvStaticKeyAttention(q, q, {3, 4}, weight);
            }),
            10 * (2 * 3 * 12 * 12 * 5));
}

TEST(OperationCounterTest, OneAtATimeInAThread) {
  const OperationCounter first;
  EXPECT_THROW(OperationCounter second, c10::Error);
}

}  // namespace
}  // namespace fovea::models
