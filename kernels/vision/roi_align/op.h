// RoIAlign: a small map of fixed size for each region of interest, by bilinear sampling.
//   Mask R-CNN (He et al., ICCV 2017), section 3, as torchvision.ops.roi_align.
//   Cost: at most 8*K*C*h*w*samples FLOPs; fewer on the CPU, where samples that share a pixel share
//   its product.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::kernels {

// Divides each region into h x w bins and averages samples in each.
//
// input: [B, C, H, W], no dimension but B empty; strides free. Maps whose channels or whose columns
//   are contiguous in memory are read in place. fp32 and bf16 run vectorised on the CPU; fp32, bf16
//   and fp16 on CUDA; others on the reference. Sums are fp32 (fp64 for fp64).
// rois: [K, 5] as image index, x1, y1, x2, y2; K may be 0; input's type or fp32 (bf16 holds
//   coordinates to three digits only). Coordinates times `spatial_scale` are in input's pixels. A
//   region may lie outside of the image, where samples are 0; one with an x or y that is not
//   finite gives NaN. An image index outside [0, B) is an error on the CPU; on CUDA, where nobody
//   waits to see it, it gives NaN.
// spatial_scale: finite. h, w: in [1, 32768].
// sampling: samples per bin and axis; 0 or less: one per pixel, rounded up. At most 4096 both ways.
// aligned: pixel centres lie at half coordinates. Otherwise coordinates are half a pixel off, and
//   regions at least one pixel wide and high, as in the first implementations.
//
// Returns [K, C, h, w] in input's type: channels-last where input's channels are contiguous in
//   memory and input as a whole is not, contiguous elsewhere.
// Differentiable in input (twice); rois count as constant.
// Goes through the dispatcher, as torch.ops.fovea.roi_align. FOVEA_FORCE_KERNEL (dispatch.h) picks
//   the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor RoiAlign(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                    int64_t h, int64_t w, int64_t sampling, bool aligned);

}  // namespace fovea::kernels
