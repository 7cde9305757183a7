#include "model_zoo/layers/batch_norm.h"

#include <ATen/ATen.h>

namespace fovea::models {

BatchNorm2d::BatchNorm2d(int64_t channels, double epsilon)
    : epsilon_(epsilon),
      weight_(AddParameter("weight", {channels})),
      bias_(AddParameter("bias", {channels})),
      running_mean_(AddBuffer("running_mean", {channels})),
      running_var_(AddBuffer("running_var", {channels})) {}

at::Tensor BatchNorm2d::forward(const at::Tensor& map) const {
  if (folded_) return map;
  if (prepared()) return at::addcmul(prepared_.shift, map, prepared_.scale);
  return at::batch_norm(map, weight_, bias_, running_mean_, running_var_, is_training(),
                        /*momentum=*/0.1, epsilon_, /*cudnn_enabled=*/true);
}

BatchNorm2d::Affine BatchNorm2d::affine() const {
  const at::NoGradGuard no_grad;
  const at::Tensor scale = weight_.detach() / (running_var_ + epsilon_).sqrt();
  return {scale, bias_.detach() - running_mean_ * scale};
}

void BatchNorm2d::FoldInto(Conv2d& before) {
  if (shared()) return;
  TORCH_INTERNAL_ASSERT(!folded_ && !prepared(), "a batch norm is folded once, before Prepare");
  const Affine own = affine();
  before.Fold(own.scale, own.shift);
  folded_ = true;
}

void BatchNorm2d::FoldInto(Linear& behind) {
  if (shared()) return;
  TORCH_INTERNAL_ASSERT(!folded_ && !prepared(), "a batch norm is folded once, before Prepare");
  const Affine own = affine();
  behind.FoldInput(own.scale, own.shift);
  folded_ = true;
}

void BatchNorm2d::Prepare(const Placement& placement) {
  if (!folded_) {
    const Affine own = affine();
    const auto broadcast = [&](const at::Tensor& t) {
      return t.to(placement.device, placement.dtype).view({1, -1, 1, 1});
    };
    prepared_ = {broadcast(own.scale), broadcast(own.shift)};
  }
  for (at::Tensor* tensor : {&weight_, &bias_, &running_mean_, &running_var_}) tensor->reset();
  ReleaseParameters();
  MarkPrepared(placement);
}

void BatchNorm2d::ShareWeights(const Layer& loaded) {
  const auto& other = dynamic_cast<const BatchNorm2d&>(loaded);
  for (at::Tensor* tensor : {&weight_, &bias_, &running_mean_, &running_var_}) tensor->reset();
  folded_ = other.folded_;
  prepared_ = other.prepared_;
  ShareState(loaded);
}

int64_t BatchNorm2d::OwnBytes() const {
  if (shared()) return 0;
  int64_t bytes = Layer::OwnBytes();
  for (const at::Tensor& tensor : {prepared_.scale, prepared_.shift}) {
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

}  // namespace fovea::models
