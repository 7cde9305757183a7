#ifdef FOVEA_KERNELS_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#endif

#include "kernels/choice/choice.h"

namespace fovea::kernels {

ChoiceOptions ChoiceOptionsFor(const c10::Device& device) {
  if (device.is_cpu()) return {};
  ChoiceOptions options = {.device = device.str(), .may_measure = !device.is_cuda()};
#ifdef FOVEA_KERNELS_CUDA
  if (device.is_cuda()) {
    options.device = at::cuda::getDeviceProperties(device.index())->name;
    options.may_measure =
        c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None;
  }
#endif
  return options;
}

}  // namespace fovea::kernels
