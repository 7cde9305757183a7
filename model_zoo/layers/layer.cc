#include "model_zoo/layers/layer.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace fovea::models {

at::Tensor Layer::AddParameter(const std::string& name, at::IntArrayRef shape) {
  return register_parameter(name, at::empty(shape, at::kFloat));
}

at::Tensor Layer::AddBuffer(const std::string& name, at::IntArrayRef shape) {
  return register_buffer(name, at::empty(shape, at::kFloat));
}

at::Tensor Layer::Resized(const std::string& /*parameter*/, const at::Tensor& stored) const {
  return stored;
}

void Layer::PrepareChildren(const Placement& placement) {
  for (const auto& child : children()) {
    auto* layer = dynamic_cast<Layer*>(child.get());
    TORCH_INTERNAL_ASSERT(layer != nullptr, "a child of a layer is a layer");
    layer->Prepare(placement);
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
  int64_t bytes = 0;
  for (const auto& parameter : named_parameters(/*recurse=*/false)) {
    bytes += static_cast<int64_t>(parameter.value().nbytes());
  }
  for (const auto& buffer : named_buffers(/*recurse=*/false)) {
    bytes += static_cast<int64_t>(buffer.value().nbytes());
  }
  for (const auto& child : children()) {
    bytes += static_cast<const Layer&>(*child).WeightBytes();
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
