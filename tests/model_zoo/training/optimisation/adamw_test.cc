#include "model_zoo/training/optimisation/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace fovea::models::training {
namespace {

at::Tensor Leaf(at::ArrayRef<float> values) { return at::tensor(values).requires_grad_(); }

void SetGradient(at::Tensor& leaf, at::ArrayRef<float> values) {
  leaf.mutable_grad() = at::tensor(values);
}

// Algorithm 2 of the paper in scalars, with Adam's bias correction.
struct ScalarAdamW {
  AdamW::Options options;
  double value, mean = 0, square = 0;
  int steps = 0;

  void Step(double gradient, double learning_rate) {
    ++steps;
    value -= learning_rate * options.weight_decay * value;
    mean = options.beta1 * mean + (1 - options.beta1) * gradient;
    square = options.beta2 * square + (1 - options.beta2) * gradient * gradient;
    const double unbiased_mean = mean / (1 - std::pow(options.beta1, steps));
    const double unbiased_square = square / (1 - std::pow(options.beta2, steps));
    value -= learning_rate * unbiased_mean / (std::sqrt(unbiased_square) + options.epsilon);
  }
};

TEST(AdamWTest, StepsAsTheAlgorithmInScalarsDoes) {
  const AdamW::Options options{.beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.3};
  at::Tensor weight = Leaf({1.5f});
  AdamW optimizer(options);
  optimizer.Add(weight, /*decays=*/true);
  ScalarAdamW expected{options, 1.5};
  const float gradients[] = {0.5f, -2.0f, 0.1f, 4.0f};
  const double rates[] = {0.1, 0.05, 0.2, 0.01};
  for (int i = 0; i < 4; ++i) {
    SetGradient(weight, {gradients[i]});
    optimizer.Step(rates[i]);
    expected.Step(gradients[i], rates[i]);
    EXPECT_NEAR(weight.item<double>(), expected.value, 1e-5) << "step " << i;
  }
}

TEST(AdamWTest, OnlyWhatDecaysShrinksWithoutAGradient) {
  at::Tensor matrix = Leaf({2.0f}), bias = Leaf({2.0f});
  AdamW optimizer({.weight_decay = 0.5});
  optimizer.Add(matrix, /*decays=*/true);
  optimizer.Add(bias, /*decays=*/false);
  SetGradient(matrix, {0.0f});
  SetGradient(bias, {0.0f});
  optimizer.Step(0.1);
  EXPECT_FLOAT_EQ(matrix.item<float>(), 2.0f * (1 - 0.1f * 0.5f));
  EXPECT_FLOAT_EQ(bias.item<float>(), 2.0f);
}

TEST(AdamWTest, ClippingScalesAllGradientsByTheirCommonNorm) {
  at::Tensor a = Leaf({0.0f, 0.0f}), b = Leaf({0.0f});
  AdamW optimizer({});
  optimizer.Add(a, true);
  optimizer.Add(b, false);
  SetGradient(a, {3.0f, 0.0f});
  SetGradient(b, {4.0f});
  EXPECT_DOUBLE_EQ(optimizer.ClipGradients(10.0), 5.0);
  EXPECT_FLOAT_EQ(b.grad().item<float>(), 4.0f);  // within the limit: untouched
  EXPECT_DOUBLE_EQ(optimizer.ClipGradients(1.0), 5.0);
  EXPECT_FLOAT_EQ(a.grad()[0].item<float>(), 0.6f);
  EXPECT_FLOAT_EQ(b.grad().item<float>(), 0.8f);
}

TEST(AdamWTest, ReachesTheMinimumOfAQuadratic) {
  at::Tensor x = Leaf({5.0f, -3.0f});
  AdamW optimizer({.weight_decay = 0.0});
  optimizer.Add(x, true);
  for (int step = 0; step < 400; ++step) {
    optimizer.ZeroGradients();
    (x - at::tensor({1.0f, 2.0f})).square().sum().backward();
    optimizer.Step(step < 300 ? 0.1 : 0.01);
  }
  EXPECT_NEAR(x[0].item<float>(), 1.0f, 1e-2);
  EXPECT_NEAR(x[1].item<float>(), 2.0f, 1e-2);
}

TEST(AdamWTest, AForgottenGradientIsAnError) {
  at::Tensor weight = Leaf({1.0f});
  AdamW optimizer({});
  optimizer.Add(weight, true);
  SetGradient(weight, {1.0f});
  optimizer.ZeroGradients();
  EXPECT_THROW(optimizer.Step(0.1), c10::Error);
}

}  // namespace
}  // namespace fovea::models::training
