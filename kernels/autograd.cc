#include "kernels/autograd.h"

#include <ATen/FuncTorchTLS.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedReference : torch::CustomClassHolder {
  explicit SavedReference(DifferentiableOp::Function f) : function(std::move(f)) {}
  DifferentiableOp::Function function;
};

struct ReferenceGradient : torch::autograd::Function<ReferenceGradient> {
  static at::Tensor forward(AutogradContext* context, at::TensorList inputs,
                            const DifferentiableOp& op) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward(inputs.vec());
    context->saved_data["reference"] =
        c10::IValue::make_capsule(c10::make_intrusive<SavedReference>(op.reference));
    return op.forward(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, variable_list output_gradients) {
    // On when somebody differentiates this gradient: then it has to stay connected to the inputs.
    const bool differentiable = at::GradMode::is_enabled();
    variable_list inputs = context->get_saved_variables();
    variable_list gradients(inputs.size() + 1);  // one per argument of forward, op's undefined
    if (!output_gradients[0].defined()) return gradients;

    at::AutoGradMode record(true);
    variable_list wanted;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!context->needs_input_grad(i)) continue;
      if (!differentiable) inputs[i] = inputs[i].detach().requires_grad_();
      wanted.push_back(inputs[i]);
    }
    const auto reference = c10::static_intrusive_pointer_cast<SavedReference>(
        context->saved_data["reference"].toCapsule());
    const variable_list found = torch::autograd::grad(
        {reference->function(inputs)}, wanted, output_gradients, /*retain_graph=*/differentiable,
        /*create_graph=*/differentiable, /*allow_unused=*/true);
    for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
      if (context->needs_input_grad(i)) gradients[i] = found[next++];
    }
    return gradients;
  }
};

}  // namespace

at::Tensor ApplyWithReferenceGradient(const std::vector<at::Tensor>& inputs, DifferentiableOp op) {
  for (const at::Tensor& input : inputs) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !input._fw_grad(/*level=*/0).defined(),
        "Fovea's operators have no forward-mode derivatives (torch.func.jvp, "
        "jacfwd, dual numbers): differentiate them by torch.autograd, "
        "jacobians by torch.autograd.functional.jacobian");
  }
  const bool wanted = at::GradMode::is_enabled() &&
                      std::any_of(inputs.begin(), inputs.end(),
                                  [](const at::Tensor& t) { return t.requires_grad(); });
  if (wanted && at::functorch::functorchTLSAccessor() != nullptr) {
    try {
      at::functorch::functorchTLSAccessor()->checkSupportsCppAutogradFunction();
    } catch (const c10::Error&) {
      C10_THROW_ERROR(NotImplementedError,
                      "Fovea's operators are differentiated by torch.autograd (backward, "
                      "torch.autograd.grad), and not within torch.func's transforms");
    }
  }
  if (!wanted) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return op.forward(inputs);
  }
  return ReferenceGradient::apply(at::TensorList(inputs), op);
}

OptionalTensors::OptionalTensors(List arguments) {
  for (std::optional<at::Tensor>& argument : arguments) {
    is_given_.push_back(argument.has_value());
    if (argument) given_.push_back(std::move(*argument));
  }
}

OptionalTensors::List OptionalTensors::InPlaces(const std::vector<at::Tensor>& tensors) const {
  List places(is_given_.size());
  for (size_t i = 0, next = 0; i < places.size(); ++i) {
    if (is_given_[i]) places[i] = tensors[next++];
  }
  return places;
}

}  // namespace fovea::kernels
