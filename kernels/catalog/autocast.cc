// torch.autocast over the operators: parameters that stay in fp32 while training (static keys,
// convolutions of keys, saliency vectors, bias tables) meet queries that autocast's linear layers
// have made bfloat16 or half. As torch does for its own attention, every tensor of numbers is cast
// to autocast's lower precision; gradients come back through the casts.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace fovea::kernels {
namespace {

template <c10::DeviceType kDevice>
void CastArguments(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  const at::ScalarType type = at::autocast::get_autocast_dtype(kDevice);
  // Casts of parameters are kept until autocast's scope ends. Integers, float64 and other devices'
  // tensors stay as they are, and so do lists: products of prepared weights have types of their
  // own.
  const size_t arguments = op.schema().arguments().size();
  for (size_t i = 0; i < arguments; ++i) {
    c10::IValue& argument = torch::jit::peek(*stack, i, arguments);
    if (argument.isTensor())
      argument = at::autocast::cached_cast(type, argument.toTensor(), kDevice);
  }
  op.callBoxed(stack);
}

template <c10::DeviceType kDevice>
void CastArgumentsOfAll(torch::Library& library) {
  for (const char* op :
       {"axial_window_attention", "conv_static_key_attention", "criss_cross_attention",
        "dense_attention", "key_only_attention", "key_only_layer", "knn_attention",
        "knn_attention_exact", "rp_cpe", "static_key_attention", "window_attention"}) {
    library.impl(op, torch::CppFunction::makeFromBoxedFunction<&CastArguments<kDevice>>());
  }
}

TORCH_LIBRARY_IMPL(fovea, AutocastCPU, m) { CastArgumentsOfAll<c10::kCPU>(m); }
TORCH_LIBRARY_IMPL(fovea, AutocastCUDA, m) { CastArgumentsOfAll<c10::kCUDA>(m); }

}  // namespace
}  // namespace fovea::kernels
