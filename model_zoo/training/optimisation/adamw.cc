#include "model_zoo/training/optimisation/adamw.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <utility>

namespace fovea::models::training {

AdamW::AdamW(Options options) : options_(options) {
  groups_[0].weight_decay = options.weight_decay;
  groups_[1].weight_decay = 0.0;
}

void AdamW::Add(const at::Tensor& parameter, bool decays) {
  Group& group = groups_[decays ? 0 : 1];
  group.parameters.push_back(parameter);
  group.means.push_back(at::zeros_like(parameter));
  group.squares.push_back(at::zeros_like(parameter));
  group.steps.push_back(at::zeros({}, at::kFloat));
}

std::vector<at::Tensor> AdamW::GradientsOf(const Group& group) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : group.parameters) {
    TORCH_CHECK(parameter.grad().defined(), "a parameter of shape ", parameter.sizes(),
                " has no gradient");
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

void AdamW::ZeroGradients() {
  for (Group& group : groups_) {
    for (at::Tensor& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

double AdamW::ClipGradients(double limit) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const Group& group : groups_) {
    for (at::Tensor& gradient : GradientsOf(group)) gradients.push_back(std::move(gradient));
  }
  double square = 0;
  for (const at::Tensor& norm : at::_foreach_norm(gradients))
    square += std::pow(norm.item<double>(), 2);
  const double norm = std::sqrt(square);
  if (norm > limit) at::_foreach_mul_(gradients, limit / norm);
  return norm;
}

void AdamW::Step(double learning_rate) {
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) {
    if (group.parameters.empty()) continue;
    at::_foreach_add_(group.steps, 1);
    const std::vector<at::Tensor> gradients = GradientsOf(group);
    at::_fused_adamw_(group.parameters, gradients, group.means, group.squares,
                      /*max_exp_avg_sqs=*/{}, group.steps, learning_rate, options_.beta1,
                      options_.beta2, group.weight_decay, options_.epsilon, /*amsgrad=*/false,
                      /*maximize=*/false);
  }
}

std::vector<NamedTensor> AdamW::State() const {
  std::vector<NamedTensor> state;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const std::string name = "optimizer." + std::to_string(g) + "." + std::to_string(i);
      state.emplace_back(name + ".mean", group.means[i]);
      state.emplace_back(name + ".square", group.squares[i]);
      state.emplace_back(name + ".steps", group.steps[i]);
    }
  }
  return state;
}

}  // namespace fovea::models::training
