// Non-maximum suppression: of boxes that overlap, the best one.
//   Greedy, as torchvision.ops.nms. Cost: at most N * kept overlaps on the CPU, N^2 / 2 on CUDA.
#pragma once
#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// Walks the boxes by descending score and keeps each that overlaps none already kept by more than
// `iou`. Equal to torchvision.ops.nms on the CPU, index by index, where coordinates are numbers.
//
// boxes: [N, 4] as x1, y1, x2, y2; N may be 0; strides free. The CPU takes fp32 and fp64, CUDA
// these,
//   fp16 and bf16; others run on the reference. fp16 and bf16 are compared in fp32.
// scores: [N], boxes' type and device. Equal scores are taken in the order of their indices, NaN
//   first.
// iou: finite. A box whose intersection over union is NaN, as of two boxes without area, is kept;
//   so is, for iou >= 0, one with x2 < x1, whose area counts as negative. NaN coordinates give some
//   answer.
//
// Returns the kept boxes' indices by descending score, int64 [kept].
// The answer's length depends on the data: on CUDA the call waits for the device once, to learn it,
//   and cannot be captured into a CUDA graph; NmsKeep can. Under torch.compile the length is an
//   unbacked symbol (capture_dynamic_output_shape_ops), as with torchvision's.
// Not differentiable. Goes through the dispatcher, as torch.ops.fovea.nms; it is a composite of
//   torch.ops.fovea.nms_keep and ATen. FOVEA_FORCE_KERNEL (dispatch.h) picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor Nms(const at::Tensor& boxes, const at::Tensor& scores, double iou);

// The part of it with a fixed size, torch.ops.fovea.nms_keep: whether each box is kept, bool [N],
// in the order `order` (int64 [N], a permutation of the boxes' indices) and for that order. Waits
// for nothing, but for its reference. CUDA: N^2 / 8 bytes of masks.
at::Tensor NmsKeep(const at::Tensor& boxes, const at::Tensor& order, double iou);

}  // namespace fovea::kernels
