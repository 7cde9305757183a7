#include "server/quantize/class_agreement.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace fovea {
namespace {

using models::ClassifierActivation;

// Probabilities of 3/4 and 1/4, or of 3/4 and 1/2 where each class is there or not, against halves.
TEST(ClassAgreementTest, SigmoidsDivergeClassByClass) {
  const at::Tensor fp32 = at::tensor({std::log(3.0), 0.0}, at::kDouble).view({1, 2});
  const at::Tensor other = at::zeros_like(fp32);
  const double of_one = 0.75 * std::log(1.5) + 0.25 * std::log(0.5);
  EXPECT_NEAR(DivergenceOf(fp32, other, ClassifierActivation::kSoftmax).item<double>(), of_one,
              1e-12);
  EXPECT_NEAR(DivergenceOf(fp32, other, ClassifierActivation::kSigmoid).item<double>(), of_one / 2,
              1e-12);
  const at::Tensor one = fp32.slice(1, 0, 1);  // whose share would be 1 in both
  EXPECT_NEAR(DivergenceOf(one, at::zeros_like(one), ClassifierActivation::kSigmoid).item<double>(),
              of_one, 1e-12);
}

}  // namespace
}  // namespace fovea
