// The implementations behind RoiAlign. op.cc has checked the contract before it calls one.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities RoiAlignCapabilities();

// What every implementation is given.
struct RoiAlignInputs {
  at::Tensor input;  // [B, C, H, W], strides free
  at::Tensor rois;   // [K, 5], contiguous, fp32 (fp64 for fp64); on the CPU image indices in [0, B)
  double spatial_scale;
  int64_t h, w;
  int64_t sampling;  // 0: one per pixel
  bool aligned;
};

// The definition, in plain ATen and RoiAlignWeights: any device, any floating type, differentiable
// in input. Nothing in it depends on the rois' values, so that it can be traced.
at::Tensor RoiAlignReference(const RoiAlignInputs& in);

// One axis of all regions.
struct RoiAlignGrid {
  double spatial_scale;
  int64_t bins;
  int64_t pixels;    // of the image
  int64_t sampling;  // as RoiAlign's
  bool aligned;
};

// How much each pixel of an axis weighs in each bin, [K, bins, pixels]: the average over the bin's
// samples of the hat functions 1 - |pixel - sample|. `begin`, `end`: [K], fp32 or fp64. Through the
// dispatcher, as torch.ops.fovea.roi_align_weights: how many samples there are depends on the data,
// which tracing must not see. The reference's only; waits for the device.
at::Tensor RoiAlignWeights(const at::Tensor& begin, const at::Tensor& end,
                           const RoiAlignGrid& grid);
at::Tensor RoiAlignWeightsReference(const at::Tensor& begin, const at::Tensor& end,
                                    const RoiAlignGrid& grid);

// fp32 and bf16 on a processor with AVX2.
// `output`: [K, C, h, w], channels-last where input.stride(1) is 1, else contiguous; not empty.
void RoiAlignCpu(const RoiAlignInputs& in, const at::Tensor& output);

// fp32, bf16 and fp16, on the current stream of input's device, without waiting for it. Only in
// builds with nvcc (FOVEA_KERNELS_CUDA).
void RoiAlignCuda(const RoiAlignInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
