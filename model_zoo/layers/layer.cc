#include "model_zoo/layers/layer.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace fovea::models {
namespace {

Layer& LayerOf(const std::shared_ptr<torch::nn::Module>& child) {
  auto* layer = dynamic_cast<Layer*>(child.get());
  TORCH_INTERNAL_ASSERT(layer != nullptr, "a child of a layer is a layer");
  return *layer;
}

}  // namespace

at::Tensor Layer::AddParameter(const std::string& name, at::IntArrayRef shape) {
  return register_parameter(name, at::empty(shape, at::kFloat));
}

at::Tensor Layer::AddSizedParameter(const std::string& name, at::IntArrayRef shape) {
  sized_.insert(name);
  return AddParameter(name, shape);
}

at::Tensor Layer::AddBuffer(const std::string& name, at::IntArrayRef shape) {
  return register_buffer(name, at::empty(shape, at::kFloat));
}

at::Tensor Layer::Resized(const std::string& /*parameter*/, const at::Tensor& stored) const {
  return stored;
}

void Layer::ShareWeights(const Layer& loaded) {
  TORCH_INTERNAL_ASSERT(loaded.prepared_ && !prepared_, "a plan shares what is prepared");
  shared_ = true;
  const auto others = loaded.named_children();
  for (const auto& child : named_children()) {
    LayerOf(child.value()).ShareWeights(LayerOf(others[child.key()]));
  }
  for (auto& parameter : parameters_) {
    if (FollowsSize(parameter.key())) continue;
    parameter.value().requires_grad_(false);
    parameter.value().set_data(loaded.parameters_[parameter.key()]);
  }
  ShareBuffers(loaded);
}

void Layer::ShareState(const Layer& loaded) {
  TORCH_INTERNAL_ASSERT(loaded.prepared_ && !prepared_, "a plan shares what is prepared");
  parameters_ = loaded.parameters_;
  ShareBuffers(loaded);
  shared_ = true;
  prepared_ = true;
  activations_ = loaded.activations_;
}

void Layer::ShareBuffers(const Layer& loaded) {
  const auto others = loaded.named_buffers(/*recurse=*/false);
  for (auto& buffer : named_buffers(/*recurse=*/false)) {
    buffer.value().set_data(others[buffer.key()]);
  }
}

Placement Layer::InFp32OnCpu(const Placement& placement) {
  return {placement.device, placement.device.is_cpu() ? at::kFloat : placement.dtype};
}

void Layer::PrepareChildren(const Placement& placement) {
  for (const auto& child : children()) {
    Layer& layer = LayerOf(child);
    if (!layer.prepared()) layer.Prepare(placement);
  }
}

void Layer::Prepare(const Placement& placement) {
  PrepareChildren(placement);
  for (auto& parameter : parameters_) {
    // Handles to a parameter share it, so members of the subclass see the change.
    parameter.value().requires_grad_(false);
    parameter.value().set_data(parameter.value().to(placement.device, placement.dtype));
  }
  for (auto& buffer : named_buffers(/*recurse=*/false)) {
    buffer.value().set_data(buffer.value().to(placement.device));
  }
  MarkPrepared(placement);
}

void Layer::MarkPrepared(const Placement& placement) {
  TORCH_INTERNAL_ASSERT(!prepared_, "a layer is prepared once");
  prepared_ = true;
  activations_ = placement.dtype;
}

int64_t Layer::WeightBytes() const {
  int64_t bytes = OwnBytes();
  for (const auto& child : children()) bytes += LayerOf(child).WeightBytes();
  return bytes;
}

int64_t Layer::OwnBytes() const {
  int64_t bytes = 0;
  for (const auto& parameter : parameters_) {
    if (shared_ && !FollowsSize(parameter.key())) continue;
    bytes += static_cast<int64_t>(parameter.value().nbytes());
  }
  for (const auto& buffer : named_buffers(/*recurse=*/false)) {
    if (!shared_) bytes += static_cast<int64_t>(buffer.value().nbytes());
  }
  return bytes;
}

void Layer::ReleaseParameters() {
  parameters_.clear();
  for (auto& buffer : named_buffers(/*recurse=*/false)) {
    buffer.value().set_data(at::empty({0}));
  }
}

}  // namespace fovea::models
