#include "model_zoo/layers/linear_chain.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <utility>

namespace fovea::models {
namespace {

constexpr size_t kMostLinks = 4;

bool AreTiled(std::span<const LinearLink> links) {
  return std::ranges::all_of(
      links, [](const LinearLink& link) { return link.linear->matrix() != nullptr; });
}

at::Tensor RunTiled(std::span<const LinearLink> links, const at::Tensor& tokens,
                    const at::Tensor& given) {
  TORCH_INTERNAL_ASSERT(links.size() <= kMostLinks);
  std::array<kernels::LinearStep, kMostLinks> steps;
  std::array<kernels::rows::NormTerms, kMostLinks> norms;
  for (size_t i = 0; i < links.size(); ++i) {
    const LinearLink& link = links[i];
    kernels::LinearStep& step = steps[i];
    step.matrix = link.linear->matrix();
    if (link.norm != nullptr) {
      norms[i] = link.norm->terms();
      step.norm = &norms[i];
    }
    if (link.gelu) step.activation = kernels::rows::Activation::kGelu;
    if (link.star_relu != nullptr) {
      step.activation = kernels::rows::Activation::kStarRelu;
      step.star_scale = static_cast<float>(link.star_relu->scale());
      step.star_bias = static_cast<float>(link.star_relu->bias());
    }
    step.residual = link.residual;
    if (link.residual_scale.defined()) {
      step.residual_scale = link.residual_scale.const_data_ptr<float>();
    }
  }
  return kernels::RunChain({steps.data(), links.size()}, tokens.contiguous(),
                           given.defined() ? given.contiguous() : given);
}

at::Tensor RunOne(const LinearLink& link, at::Tensor x, const at::Tensor& residual) {
  if (link.norm != nullptr) x = link.norm->forward(x);
  const bool adds = residual.defined();
  if (link.gelu) {
    x = link.linear->ForwardGelu(x);
  } else if (adds && link.star_relu == nullptr && !link.residual_scale.defined()) {
    return link.linear->ForwardAdd(x, residual);
  } else {
    x = link.linear->forward(x);
  }
  if (link.star_relu != nullptr) x = link.star_relu->forward(x);
  if (!adds) return x;
  return link.residual_scale.defined()
             ? at::addcmul(x, residual, link.residual_scale.to(x.scalar_type()))
             : residual + x;
}

}  // namespace

at::Tensor RunLinears(std::span<const LinearLink> links, at::Tensor tokens, at::Tensor given) {
  if (AreTiled(links)) return RunTiled(links, tokens, given);
  const auto read = [&](Residual residual) {
    return std::ranges::find(links, residual, &LinearLink::residual) != links.end();
  };
  at::Tensor input = read(Residual::kInput) ? tokens : at::Tensor(), first;
  for (const LinearLink& link : links) {
    at::Tensor residual;
    if (link.residual == Residual::kGiven) residual = std::move(given);
    if (link.residual == Residual::kInput) residual = std::move(input);
    if (link.residual == Residual::kFirst) residual = std::move(first);
    tokens = RunOne(link, std::move(tokens), residual);
    if (&link == &links.front() && read(Residual::kFirst)) first = tokens;
  }
  return tokens;
}

at::Tensor RunNormed(const Linear& linear, const LayerNorm* norm, const at::Tensor& tokens) {
  const LinearLink link = {.linear = &linear, .norm = norm};
  return RunLinears({&link, 1}, tokens);
}

}  // namespace fovea::models
