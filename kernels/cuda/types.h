// The element types that CUDA kernels are built for. For host code; for_type.h is for kernels.
#pragma once
#include <c10/core/ScalarType.h>

namespace fovea::kernels::cuda {

// FOVEA_CUDA_TYPES=ONE (CMake) builds bf16 alone: it shows that each kernel compiles, in a third
// of the time.
#ifdef FOVEA_CUDA_ONE_TYPE
inline constexpr c10::ScalarType kTypes[] = {c10::ScalarType::BFloat16};
#else
inline constexpr c10::ScalarType kTypes[] = {c10::ScalarType::Float, c10::ScalarType::BFloat16,
                                             c10::ScalarType::Half};
#endif

}  // namespace fovea::kernels::cuda
