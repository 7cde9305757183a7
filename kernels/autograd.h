// Gradients of operators, taken from their references.
//
// An operator's fast implementations compute no gradients. Going backward, its reference runs again
// on the saved inputs with gradients recorded, and ATen differentiates that: no second set of
// formulas to keep right, at the price of the reference's time and memory. Twice differentiable.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace fovea::kernels {

// The same operator in two forms, as functions of its tensor arguments alone: what is not a tensor
// is bound, a tensor that was not given is left out of the list.
struct DifferentiableOp {
  using Function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;
  Function forward;    // dispatches below autograd, to any implementation
  Function reference;  // plain ATen
};

// op.forward(inputs), with the gradient of op.reference.
at::Tensor ApplyWithReferenceGradient(const std::vector<at::Tensor>& inputs, DifferentiableOp op);

// Tensor arguments of which some may be missing, as the list above wants them, and back.
class OptionalTensors {
 public:
  using List = std::vector<std::optional<at::Tensor>>;
  explicit OptionalTensors(List arguments);

  const std::vector<at::Tensor>& given() const { return given_; }
  // `tensors`, one for each that was given, in the arguments' places.
  List InPlaces(const std::vector<at::Tensor>& tensors) const;

 private:
  std::vector<at::Tensor> given_;
  std::vector<bool> is_given_;
};

}  // namespace fovea::kernels
