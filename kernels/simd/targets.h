// Before <hwy/foreach_target.h> in every file that is compiled once per target: the targets there
// are. AVX2 and AVX-512 (Highway's AVX3); the compiler's baseline is left out on purpose, since a
// processor without AVX2 is served by the references (isa.h). Files guard their per-target code
// with FOVEA_SIMD_TARGET.
//
// In that code only raw pointers and Highway: an inline function of the standard library or of
// ATen that is instantiated there would be compiled for AVX-512, and the linker may then give that
// copy to everybody.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif

#define FOVEA_SIMD_TARGET (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

// The per-target function `f` of the current target, a pointer. For use in the HWY_ONCE part of a
// file, where N_AVX2::f and N_AVX3::f are visible.
#define FOVEA_SIMD_CHOOSE(f)                                                                 \
  (::fovea::kernels::simd::CurrentIsa() == ::fovea::kernels::simd::Isa::kAvx512 ? &N_AVX3::f \
                                                                                : &N_AVX2::f)
