// From a tensor's type to the C++ type of a kernel's elements.
#pragma once
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/types.h"

namespace fovea::kernels::cuda {

// Calls run(T{}) with T = float, __nv_bfloat16 or __half, one of kTypes.
template <class Run>
void ForType(c10::ScalarType type, const Run& run) {
  switch (type) {
    case c10::ScalarType::BFloat16:
      return run(__nv_bfloat16{});
#ifndef FOVEA_CUDA_ONE_TYPE
    case c10::ScalarType::Float:
      return run(float{});
    case c10::ScalarType::Half:
      return run(__half{});
#endif
    default:
      TORCH_INTERNAL_ASSERT(false, "dispatched for ", type);
  }
}

}  // namespace fovea::kernels::cuda
