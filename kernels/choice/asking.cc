#ifdef FOVEA_KERNELS_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#endif

#include "kernels/choice/choice.h"

namespace fovea::kernels {

Asking AskingAbout(const c10::Device& device) {
  if (device.is_cpu()) return {};
  Asking asking = {.device = device.str(), .may_measure = !device.is_cuda()};
#ifdef FOVEA_KERNELS_CUDA
  if (device.is_cuda()) {
    asking.device = at::cuda::getDeviceProperties(device.index())->name;
    asking.may_measure =
        c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None;
  }
#endif
  return asking;
}

}  // namespace fovea::kernels
