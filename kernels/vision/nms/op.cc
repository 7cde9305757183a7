#include "kernels/vision/nms/op.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/contract.h"
#include "kernels/dispatch.h"
#include "kernels/vision/nms/implementations.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "nms";

void CheckBoxes(const at::Tensor& boxes, double iou) {
  const Contract contract(kOp);
  const Contract::Argument b{"boxes", boxes};
  contract.HasRank(b, 2, "[boxes, 4]");
  contract.IsFloating(b);
  contract.HasCount(b, 1, 4, "coordinates");
  contract.IsFinite("iou", iou);
}

void CheckContract(const at::Tensor& boxes, const at::Tensor& scores, double iou) {
  CheckBoxes(boxes, iou);
  const Contract contract(kOp);
  const Contract::Argument b{"boxes", boxes}, s{"scores", scores};
  contract.HasRank(s, 1, "[boxes]");
  contract.HasTypeAndDeviceOf(s, b);
  contract.HasSizeOf(s, b, 0, "box count");
}

void CheckKeepContract(const at::Tensor& boxes, const at::Tensor& order, double iou) {
  CheckBoxes(boxes, iou);
  const Contract contract(kOp);
  const Contract::Argument b{"boxes", boxes}, o{"order", order};
  contract.HasRank(o, 1, "[boxes]");
  contract.IsIndicesOf(o, b);
  contract.HasSizeOf(o, b, 0, "box count");
}

at::Tensor AllocateKeep(const at::Tensor& boxes) {
  return at::empty_symint({boxes.sym_size(0)}, boxes.options().dtype(at::kBool));
}

at::Tensor ComputeKeep(const at::Tensor& boxes, const at::Tensor& order, double iou) {
  CheckKeepContract(boxes, order, iou);
  const at::Tensor keep = AllocateKeep(boxes);
  if (keep.numel() == 0) return keep;
  const at::ScalarType type = boxes.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  // index_select checks that the order's indices are boxes'.
  const NmsInputs in{boxes.index_select(0, order).to(type), iou};
  switch (ChooseImplementation(NmsCapabilities(), boxes.device().type(), boxes.scalar_type())) {
    case Implementation::kReference:
      keep.copy_(NmsReference(in));
      break;
    case Implementation::kCpu:
      NmsCpu(in, keep);
      break;
    case Implementation::kCuda:
#ifdef FOVEA_KERNELS_CUDA
      NmsCuda(in, keep);
#endif
      break;
  }
  return keep;
}

at::Tensor MetaKeep(const at::Tensor& boxes, const at::Tensor& order, double iou) {
  CheckKeepContract(boxes, order, iou);
  return AllocateKeep(boxes);
}

at::Tensor AutogradKeep(const at::Tensor& boxes, const at::Tensor& order, double iou) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return NmsKeep(boxes, order, iou);
}

// A composite, so that the length of the answer is ATen's to tell under torch.compile: a meta
// implementation in C++ has no means to make a symbol for it.
at::Tensor Compose(const at::Tensor& boxes, const at::Tensor& scores, double iou) {
  CheckContract(boxes, scores, iou);
  const at::Tensor order = at::argsort(scores, /*stable=*/true, 0, /*descending=*/true);
  return order.masked_select(NmsKeep(boxes, order, iou));
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("nms_keep(Tensor boxes, Tensor order, float iou) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("nms(Tensor boxes, Tensor scores, float iou) -> Tensor", {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("nms_keep", ComputeKeep); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("nms_keep", ComputeKeep); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("nms_keep", MetaKeep); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("nms_keep", AutogradKeep); }
TORCH_LIBRARY_IMPL(fovea, CompositeImplicitAutograd, m) { m.impl("nms", Compose); }

}  // namespace

Capabilities NmsCapabilities() {
  static constexpr at::ScalarType kCpuTypes[] = {at::kFloat, at::kDouble};
  static constexpr at::ScalarType kCudaTypes[] = {at::kFloat, at::kDouble, at::kHalf,
                                                  at::kBFloat16};
  Capabilities capabilities{.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
  if (!capabilities.cpu.types.empty()) capabilities.cpu.types = kCpuTypes;
  if (!capabilities.cuda.types.empty()) capabilities.cuda.types = kCudaTypes;
  return capabilities;
}

at::Tensor Nms(const at::Tensor& boxes, const at::Tensor& scores, double iou) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("fovea::nms", "").typed<decltype(Compose)>();
  return op.call(boxes, scores, iou);
}

at::Tensor NmsKeep(const at::Tensor& boxes, const at::Tensor& order, double iou) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::nms_keep", "")
                             .typed<decltype(ComputeKeep)>();
  return op.call(boxes, order, iou);
}

}  // namespace fovea::kernels
