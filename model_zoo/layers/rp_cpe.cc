#include "model_zoo/layers/rp_cpe.h"

#include <ATen/ATen.h>

#include "kernels/vision/rp_cpe/merge.h"
#include "kernels/vision/rp_cpe/op.h"

namespace fovea::models {
namespace {

// The operator adds its input: a branch that subtracts it again, for the forms that do not.
at::Tensor WithoutSkip(const at::Tensor& weight) {
  const at::Tensor changed = weight.clone();
  changed.select(0, 0).select(2, 1).select(1, 1).sub_(1);
  return changed;
}

}  // namespace

RpCpe::RpCpe(const RpCpeOptions& options)
    : skip_(options.skip),
      weight_(AddParameter("weight", {options.branches, options.channels, 3, 3})),
      bias_(AddParameter("bias", {options.branches, options.channels})) {}

at::Tensor RpCpe::forward(const at::Tensor& map) const {
  const bool as_it_is = skip_ || prepared();
  return kernels::RpCpe(map, as_it_is ? weight_ : WithoutSkip(weight_), bias_);
}

at::Tensor RpCpe::ForwardGelu(const at::Tensor& map) const {
  return prepared() ? kernels::RpCpeGelu(map, weight_, bias_) : at::gelu(forward(map));
}

void RpCpe::Prepare(const Placement& placement) {
  // Merged in fp64 and rounded once.
  const at::Tensor weight = weight_.detach().to(at::kDouble);
  const kernels::RpCpeWeights merged =
      kernels::MergeRpCpe({skip_ ? weight : WithoutSkip(weight), bias_.detach().to(at::kDouble)});
  ReleaseParameters();
  weight_ = merged.weights.to(placement.device, at::kFloat);
  bias_ = merged.biases.to(placement.device, at::kFloat);
  MarkPrepared(placement);
}

void RpCpe::ShareWeights(const Layer& loaded) {
  const auto& other = dynamic_cast<const RpCpe&>(loaded);
  weight_ = other.weight_;
  bias_ = other.bias_;
  ShareState(loaded);
}

int64_t RpCpe::OwnBytes() const {
  if (!prepared()) return Layer::OwnBytes();
  return shared() ? 0 : static_cast<int64_t>(weight_.nbytes() + bias_.nbytes());
}

}  // namespace fovea::models
