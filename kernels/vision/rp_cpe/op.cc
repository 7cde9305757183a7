#include "kernels/vision/rp_cpe/op.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <vector>

#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"
#include "kernels/vision/rp_cpe/implementations.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "rp_cpe";

void CheckContract(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  const Contract contract(kOp);
  const Contract::Argument map{"x", x}, w{"weights", weights}, b{"biases", biases};
  contract.HasRank(map, 4, "[batch, channels, height, width]");
  contract.IsFloating(map);
  contract.IsNotEmpty(map, 1, "channel");
  contract.IsNotEmpty(map, 2, "row");
  contract.IsNotEmpty(map, 3, "column");
  contract.HasRank(w, 4, "[branches, channels, 3, 3]");
  contract.HasRank(b, 2, "[branches, channels]");
  contract.IsBiasOf(w, map);
  contract.IsBiasOf(b, map);
  contract.IsNotEmpty(w, 0, "branch");
  contract.HasSizeOf(w, map, 1, "channel count");
  contract.HasCount(w, 2, 3, "kernel rows");
  contract.HasCount(w, 3, 3, "kernel columns");
  contract.HasSizeOf(b, w, 0, "branch count");
  contract.HasSizeOf(b, w, 1, "channel count");
}

at::Tensor AllocateOutput(const at::Tensor& x) {
  const bool channels_last = x.sym_stride(1) == 1 && !x.is_contiguous();
  return at::empty_symint(
      x.sym_sizes(), x.options(),
      channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

at::Tensor Compute(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  CheckContract(x, weights, biases);
  at::Tensor output = AllocateOutput(x);
  if (output.numel() == 0) return output;
  const RpCpeInputs in{x, weights, biases, /*gelu=*/false};
  switch (ChooseImplementation(RpCpeCapabilities(), x.device().type(), x.scalar_type())) {
    case Implementation::kReference:
      output.copy_(RpCpeReference(in));
      break;
    case Implementation::kCpu:
      RpCpeCpu(in, output);
      break;
    case Implementation::kCuda:
#ifdef FOVEA_KERNELS_CUDA
      RpCpeCuda(in, output);
#endif
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  CheckContract(x, weights, biases);
  return AllocateOutput(x);
}

at::Tensor Autograd(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  return ApplyWithReferenceGradient(
      {x, weights, biases},
      {.forward = [](const std::vector<at::Tensor>& t) { return RpCpe(t[0], t[1], t[2]); },
       .reference =
           [](const std::vector<at::Tensor>& t) {
             return RpCpeReference({t[0], t[1], t[2]});
           }});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("rp_cpe(Tensor x, Tensor weights, Tensor biases) -> Tensor",
        {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("rp_cpe", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("rp_cpe", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("rp_cpe", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("rp_cpe", Autograd); }

}  // namespace

Capabilities RpCpeCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor RpCpe(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::rp_cpe", "")
                             .typed<decltype(Compute)>();
  return op.call(x, weights, biases);
}

at::Tensor RpCpeGelu(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  CheckContract(x, weights, biases);
  const Implementation chosen =
      ChooseImplementation(RpCpeCapabilities(), x.device().type(), x.scalar_type());
  if (chosen != Implementation::kCpu || x.numel() == 0) {
    return at::gelu(RpCpe(x, weights, biases));
  }
  // For who watches operators.
  RECORD_FUNCTION("fovea::rp_cpe", c10::ArrayRef<const c10::IValue>());
  at::Tensor output = AllocateOutput(x);
  RpCpeCpu({x, weights, biases, /*gelu=*/true}, output);
  return output;
}

}  // namespace fovea::kernels
